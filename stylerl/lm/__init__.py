"""Language models: loaded, sampled from, and what their trainers share.

encoding.py has tokenizers, models.py what reads their tokens, saving.py the
folder of both; sampling.py writes completions, logprobs.py scores them;
batching.py makes batches of texts, adapters.py is LoRA, checkpoint.py what a
killed run resumes from.
"""
