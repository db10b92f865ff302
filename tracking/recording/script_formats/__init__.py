"""Formats in which training scripts print their progress: one file per framework.

A format reads one part of a line and returns its step and its values, or None. Open `formats.py` for the list. Rates
and sample counts are computed in `tracking/recording/script_rates.py`; the events are made in `script_log.py`.
"""
