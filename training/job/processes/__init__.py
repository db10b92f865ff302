"""What all parts of a job share: its processes, the signal to stop, its reports, and protocols of other objects.

Imports torch only inside functions, because this room must work before torch is imported. Open `reporting.py` first.
"""
