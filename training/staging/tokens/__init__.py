"""Tokenise rows, and write and describe the files of the channels.

Open `staged.py` first: it describes the result of a staging.
"""
