"""Attacks on the product: kills, damage, hostile files and clients, each tried many times and counted.

One file holds one kind of attack, and its function `run(folder)` returns a `Result`. `benchmarks/bench_attacks.py`
runs them all. The slow tests try each kind a few times.
"""
