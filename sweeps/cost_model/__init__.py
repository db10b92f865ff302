"""Predict the cost of each setting, and decide which trials are worth running. Pure.

Open `expected_improvement.py` first.
"""
