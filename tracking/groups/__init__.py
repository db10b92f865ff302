"""The parent run of a command, and the plan that is kept with it.

Open `group.py` first.
"""
