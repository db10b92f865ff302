"""Tokenise rows and write them as channel files.

Open `staged.py` first: what a staging leaves behind.
"""
