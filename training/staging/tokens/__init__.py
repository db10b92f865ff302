"""Tokenise rows and write the files of the channels.

Open `staged.py` first: it describes the result of a staging.
"""
