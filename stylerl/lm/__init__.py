"""Language models: loaded, sampled from, and what their trainers share.

encoding.py has tokenizers, models.py what reads their tokens, saving.py the
folder of both; sampling.py writes completions by decoding.py, on a GPU by
replay.py, each after its context.py; logprobs.py scores them, many in a pass
(packing.py); batching.py makes batches of texts, adapters.py is LoRA,
checkpoint.py what a killed run resumes from.
"""
