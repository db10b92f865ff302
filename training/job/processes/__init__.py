"""The processes and hosts of one job, and the signals that stop it.

Open `ranks.py` first.
"""
