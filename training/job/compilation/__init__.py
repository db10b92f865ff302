"""Compilers, faster kernels, 8-bit products, a faster dropout, and fewer imports: everything that speeds up a training
without changing what is trained.

Open `compilers.py` first.
"""
