"""Write one job's run: parameters, metrics, tables and status from its events or its log.

Open `recorder.py` first.
"""
