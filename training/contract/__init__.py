"""Types that both sides of a job share: job spec, request, events, errors and prices.

Imports nothing else of this project. Open `job_spec.py` first.
"""
