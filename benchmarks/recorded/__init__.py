"""Recorded grids and repeats of real trainings, and strategies replayed on them.

The recorded tables are in `grids` and `repeats`. Open `replay.py` first.
"""
