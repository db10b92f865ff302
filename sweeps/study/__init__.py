"""Optuna studies of a sweep: storage with its locks and retries, and samplers.

Open `study.py` first.
"""
