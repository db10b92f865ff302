"""Channels to batches: rows, their order, padding and batch shapes.

Open `channels.py` first.
"""
