"""Recorded grids and repeats of real trainings, and strategies replayed on them.

The tables are in `grids` and `repeats`. Open `replay.py` first.
"""
