"""Token credit for the trainers of others.

token_level.py is the reward of every token of a response, as our own trainer
has it; verl_loop.py gives it to veRL, and handover.py writes what that needs.
`stylerl.reward` has rewards of whole responses.
"""
