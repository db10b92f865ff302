"""Budget of a group: what its jobs have cost, what they may still cost, and whether the next one fits.

`ledger.py` has the pure rules first, and then reads and writes the runs.
"""
