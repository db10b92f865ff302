"""What several benchmarks share: running commands, data, workloads, results and peak measurements.

Open `results.py` first.
"""
