"""The report of one training: its outcome, time, cost and quality. It compares nothing, so it has no verdict.

Open `report.py` first. `messages.py` contains the sentences. A group of several jobs is a comparison.
"""
