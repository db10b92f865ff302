"""The report of a group of probes: projected time and cost of each arm.

Open `projections.py` first. `messages.py` writes its sentences; `report.py` builds the report.
"""
