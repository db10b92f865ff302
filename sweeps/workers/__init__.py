"""Run the trials of a sweep: claim one, follow its job, report the outcome.

Open `worker.py` first.
"""
