"""A user's own training script as a job: its source, its version and its channels.

Open `source.py` first.
"""
