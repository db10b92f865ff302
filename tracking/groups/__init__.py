"""The parent run of a command, and the plan and results that are stored with it.

Open `group.py` first.
"""
