"""Compilers, faster kernels and attention, 8-bit products, fewer imports: what speeds up a training without changing it.

Open `compilers.py` first.
"""
