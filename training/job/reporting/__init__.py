"""Events, failures and errors: what a job reports to the outside.

Imports nothing heavy, because it must work whatever else fails. Open `events.py` first.
"""
