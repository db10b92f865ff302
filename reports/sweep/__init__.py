"""The report of a sweep: the best setting, how sure it is, and what the search cost.

Open `sweep.py` first.
"""
