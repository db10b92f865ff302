"""The report of a group of probes: projected time and cost of each arm, on demand and on spot capacity.

Open `report.py` first. `spot.py` has the estimates on spot capacity, which plans show too.
"""
