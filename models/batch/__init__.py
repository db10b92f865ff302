"""Predict every row of a file, in the file's order.

Open `prediction.py` first.
"""
