"""Select, check and tokenise rows, and write and describe the files of the channels.

Open `rows.py` first, then `channels.py`. `staged.py` describes the result of a staging.
"""
