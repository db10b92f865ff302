"""The grid of settings that a sweep searches, the scaling rules, and the objective. Pure functions.

Open `grid.py` first.
"""
