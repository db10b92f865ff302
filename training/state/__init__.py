"""State folder on this machine: its path, its locks and the deletion of folders.

Open `home.py` first.
"""
