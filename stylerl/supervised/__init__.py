"""Next-token training: sft.py fine-tunes the base, fim.py at a cursor.

training.py is what SFT and the reward models' training share.
"""
