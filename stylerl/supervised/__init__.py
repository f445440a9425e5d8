"""Next-token training: pretrain.py makes the base, sft.py fine-tunes it."""
