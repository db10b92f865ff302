"""Recorded jobs: one job, the arms of a group, what its waves run next, and the cost that jobs suggest for others.

Open `recorded_job.py` first. Launchers, plans and reports all use this room; verdicts belong in `reports`.
"""
