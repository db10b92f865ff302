"""The job's arguments, checked and resolved before anything is trained.

Open `arguments.py` first.
"""
