"""Implementations of attention that the job adds to those of transformers.

`blockwise.py` is for training on a CPU, `varlen.py` for rows without padding.
"""
