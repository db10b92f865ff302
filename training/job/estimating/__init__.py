"""Short runs that estimate a full training: probe and calibration, with the statistics that they share.

A probe runs the beginning of a training; a calibration times steps at several batch sizes. Open `probe.py` first.
"""
