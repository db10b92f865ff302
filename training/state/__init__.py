"""State folder on this machine: its path, its locks, digests of its contents and the deletion of folders.

`own_process.py` starts our other processes on this machine.

Open `home.py` first.
"""
