"""State on this machine: the path of its folder, locks, permissions, and what is made, compared and deleted as a whole.

`own_process.py` starts our other processes on this machine. Open `home.py` first.
"""
