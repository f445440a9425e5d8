"""Next-token training: sft.py fine-tunes the base.

training.py is what SFT and the reward models' training share.
"""
