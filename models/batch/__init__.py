"""Predict every row of a file, in the file's order. A killed prediction can be resumed.

Open `prediction.py` first.
"""
