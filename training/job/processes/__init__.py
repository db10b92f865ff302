"""The processes and hosts of one job, and the signals that stop it.

Imports torch only inside functions, because `train.py` uses this room before it imports torch. Open `ranks.py` first.
"""
