"""The processes of one job, the signal that stops them, and all that they report: events and failures.

Imports torch only inside functions, because this room must work before torch is imported. Open `reporting.py` first.
"""
