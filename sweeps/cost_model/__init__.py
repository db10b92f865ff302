"""Decide which trials are stopped, and when a search has ended. Pure.

Open `ending.py` first.
"""
