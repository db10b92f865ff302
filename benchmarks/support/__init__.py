"""Helpers that benchmarks share: commands, data, workloads, results and peak measurements.

Open `results.py` first.
"""
