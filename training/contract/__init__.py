"""What every side of a job shares: job spec, request, events, errors and prices.

Imports nothing else of ours. Open `job_spec.py` first.
"""
