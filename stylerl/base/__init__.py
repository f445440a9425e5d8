"""The base model: the folder artifacts/base, in the hub's format.

folder.py writes it: from a wheel on the package index, which wheel.py gets
and of whose GGUF file dequantised.py makes a model; from the hub
(snapshot.py); or as a toy for tests (tiny.py).
"""
