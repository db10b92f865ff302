"""The report of a sweep: the best setting, the certainty of that answer, and the cost of the search.

Open `sweep.py` first. `messages.py` has the sentences; `report.py` has the tables and builds the report.
"""
