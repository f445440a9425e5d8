"""Language models: loaded, sampled from, and what their trainers share.

models.py loads and saves; sampling.py writes completions, logprobs.py scores
them; batching.py makes batches of texts, adapters.py is LoRA, checkpoint.py
what a killed run resumes from.
"""
