"""Helpers that benchmarks share: commands, data, workloads and results.

Open `results.py` first.
"""
