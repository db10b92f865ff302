"""Partial trainings that estimate a whole one: probe and calibration.

Open `probe.py` first.
"""
