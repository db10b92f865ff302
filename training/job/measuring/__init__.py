"""Measure time, memory and throughput of a training, the hardware that it runs on, and what others take from it.

Open `meter.py` first.
"""
