"""Checks of rows, class numbers of labels, and the split into training and validation rows.

Open `prepare.py` first.
"""
