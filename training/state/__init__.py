"""State folder on this machine: its path, its locks, digests of its contents and the deletion of folders.

Open `home.py` first.
"""
