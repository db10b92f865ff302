"""Recorded grids and repeats of real trainings, and strategies replayed on them.

Open `replay.py` first.
"""
