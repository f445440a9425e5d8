"""Token credit for the trainers of others.

token_level.py is the reward of every token of a response, as our own trainer has
it; the other modules hand it over as an engine takes it, one each:
verl_loop.py for veRL.  `stylerl.reward` has rewards of whole responses.
"""
