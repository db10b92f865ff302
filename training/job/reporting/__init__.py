"""Events, failures and errors: everything a job reports to the outside.

Imports nothing heavy, because it must work whatever else fails. Open `events.py` first.
"""
