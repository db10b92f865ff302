"""The state folder on this machine: its path, its locks and safe deletion.

Open `home.py` first.
"""
