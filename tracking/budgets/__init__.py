"""Budget of a group: what its jobs have cost, what they may still cost, and whether the next one fits.

Open `reserving.py` first, which is pure; `ledger.py` reads and writes the runs.
"""
