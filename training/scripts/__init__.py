"""Jobs that run a user's own training script: its source, its version and its channels.

Open `source.py` first.
"""
