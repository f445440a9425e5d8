"""A model leaves: as a GGUF file, or as a folder of the hub with its card."""
