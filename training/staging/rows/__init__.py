"""Check rows, number the classes of labels, and split rows into training and validation rows.

Open `selection.py` first.
"""
