"""The processes and hosts of one job, and the signals that stop it.

Imports torch only inside functions, because `train.py` needs this room before that import. Open `ranks.py` first.
"""
