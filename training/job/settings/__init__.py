"""The settings of a job: declared once, read from its arguments, checked and resolved before the training starts.

Open `declared.py` first.
"""
