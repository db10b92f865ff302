"""Search space of a sweep: the grid of settings, the scaling rules and the objective. Pure.

Open `grid.py` first.
"""
