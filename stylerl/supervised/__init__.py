"""Next-token training: pretrain.py makes the base, sft.py fine-tunes it.

training.py is what SFT and the reward models' training share.
"""
