"""Follow the running jobs of a group and record them as they go.

Open `group_session.py` first.
"""
