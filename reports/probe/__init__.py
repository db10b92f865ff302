"""The report of a group of probes: projected time and cost of each arm.

Open `projections.py` first. `messages.py` puts it into words; `report.py` builds the report.
"""
