"""Planted faults: each is a small mistake in the product that a named fast test must find.

`python -m tests.faults`, or `make faults`, plants them one by one in copies of the tree and runs the test of each. Add
a fault when a rule must never break unseen. `planted.py` and `planted_jobs.py` list them; when a change moves the code
of a fault, move its anchor, too.
"""
