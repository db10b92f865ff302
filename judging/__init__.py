"""Arithmetic of verdicts: intervals, quality, break-even and step times.

Pure functions over numbers that import nothing of ours, so reports, sweeps, models and benchmarks can share them.
Open `intervals.py` first.
"""
