"""Compilers, faster kernels and attention, 8-bit products, fewer imports: all that speeds up the same training.

Open `compilers.py` first.
"""
