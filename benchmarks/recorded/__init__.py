"""Recorded grids and repeats of real trainings, and strategies replayed on them. Open `replay.py` first.

A grid in `grids` is one `compare` whose arms were the points of the grid and that never stopped early; a table in
`repeats` is one `compare` of a single arm. Their JSON files name the fields and the commit, which has the recorders.
"""
