"""Arithmetic of verdicts: summaries, intervals, quality, break-even and step times.

Pure functions over numbers. Nothing here imports our other packages, so reports, sweeps, models and benchmarks can all
use it. Open `intervals.py` first.
"""
