"""The report of a group of probes: projected time and cost of each arm.

Open `projections.py` first. `job_spreads.py` has the spread between a user's own jobs, `messages.py` the sentences, and
`report.py` builds the report.
"""
