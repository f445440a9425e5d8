"""Token credit for the trainers of others.

token_level.py is the reward of every token of a response, as our own trainer
has it; verl_loop.py, skyrl_generator.py and prime_algorithm.py give it to
veRL, SkyRL and prime-rl, and handover.py writes what the first two need.
`stylerl.reward` has rewards of whole responses.
"""
