"""Turn channels into batches: read rows, order them, pad them, and plan the batch shapes.

Building channels from raw data belongs in `training/staging`. Open `channels.py` first.
"""
