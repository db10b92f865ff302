"""Measure time, memory and throughput of a training, and project its duration from the first steps.

Pure, except `clocks`, `hardware` and `memory`, which read the device. Open `meter.py` first.
"""
