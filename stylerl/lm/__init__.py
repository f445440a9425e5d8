"""Language models: loaded, trained, sampled from, and served.

models.py loads and saves; pretrain.py makes the embedded base, sft.py
fine-tunes it (training.py is what supervised trainers share); sampling.py
writes completions, logprobs.py scores them; adapters.py is LoRA,
checkpoint.py what a killed run resumes from.
"""
