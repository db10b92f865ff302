"""Check rows, map their labels and split them into training and validation.

Open `prepare.py` first.
"""
