"""Predict what each setting would cost, and decide which trial is worth running or keeping.

Pure. Open `expected_improvement.py` first.
"""
