"""The report of a sweep: the best setting, how sure that is, and the cost of the search.

Open `sweep.py` first. `headline.py`, `messages.py` and `tables.py` put it into words and tables; `report.py` builds
the report.
"""
