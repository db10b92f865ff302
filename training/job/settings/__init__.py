"""The job's arguments, checked and resolved before the training starts.

Open `arguments.py` first.
"""
