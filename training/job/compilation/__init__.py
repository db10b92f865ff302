"""Compilers, attention for CPUs, and fewer imports: all that makes the same training faster.

Open `compilers.py` first.
"""
