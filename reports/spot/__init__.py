"""Expected time and cost of a training on spot capacity, beside those on demand.

Open `estimate.py` first: it is pure. `recorded.py` reads its inputs from tracked jobs, and `text.py` has the table and
the sentences of reports and plans.
"""
