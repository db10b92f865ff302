"""Shared by all parts of a job: its processes, the signal to stop, its reports, and the protocol of a model.

Imports torch only inside functions, because this room must work before torch is imported. Open `reporting.py` first.
"""
