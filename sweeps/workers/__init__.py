"""Run the trials of a sweep: claim one, follow its job and record the outcome.

Open `worker.py` first.
"""
