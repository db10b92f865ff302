"""Optuna studies of a sweep: storage, locks, retries and samplers.

Open `study.py` first.
"""
