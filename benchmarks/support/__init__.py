"""Helpers shared by several benchmarks: commands, data, workloads, results and peak measurements.

Open `results.py` first.
"""
