"""Events, failures and errors: everything that a job reports.

Imports nothing heavy, because it must work even if other imports fail. Open `events.py` first.
"""
