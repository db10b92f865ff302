"""Compilers, faster kernels, 8-bit products and fewer imports: all that speeds up a training without changing it.

Open `compilers.py` first.
"""
