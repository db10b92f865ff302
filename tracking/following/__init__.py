"""Follow the running jobs of a group and record them while they run.

Open `group_session.py` first.
"""
