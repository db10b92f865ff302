"""The report of a sweep: the best setting, the certainty of that answer, and the cost of the search.

Open `sweep.py` first. `messages.py` and `tables.py` format it as sentences and tables; `report.py` builds the report.
"""
