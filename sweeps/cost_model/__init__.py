"""Decide which trials are stopped, when a search has ended, and which settings are trained again. Pure.

Open `ending.py` first.
"""
