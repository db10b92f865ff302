"""Short runs that estimate a full training: probe and calibration.

A probe runs the beginning of a training; a calibration times steps at several batch sizes. Open `probe.py` first.
"""
