"""The report of a group of probes: projected time and cost of each arm, on demand and on spot capacity.

Open `projections.py` first. `report.py` builds the report, and `spot.py` has the estimates that plans show too.
"""
