"""Turn channels into batches: read rows, order them, pad them, and plan the shapes of the batches.

Building channels from raw data belongs in `training/staging`. Open `channels.py` first.
"""
