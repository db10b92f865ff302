"""The overview of a whole MLflow experiment: the answer of every group and the cost of all jobs.

Open `overview.py` first. `messages.py` and `tables.py` format it as sentences and tables; `report.py` builds the
report.
"""
