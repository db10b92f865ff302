"""Answer every row of a file, resumable and in the order of the file.

Open `prediction.py` first.
"""
