"""Time, memory and throughput of a training, and projections from its first steps.

Open `meter.py` first.
"""
