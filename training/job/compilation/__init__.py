"""Compilers, and replacements that make a training faster without changing it.

Open `compilers.py` first.
"""
