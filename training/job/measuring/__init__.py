"""Measure time, memory and throughput of a training, and project its duration from the first steps.

Pure, except `clocks`, `hardware`, `memory`, `machine_load` and `gpu_load`, which read the machine. Open `meter.py`
first.
"""
