"""Compilers, and the operations that are replaced to make training faster.

Open `compilers.py` first.
"""
