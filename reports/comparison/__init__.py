"""The comparison of a group's arms: summaries, verdicts, tables and sentences.

Open `comparison.py` first: it judges the arms. `looks.py` decides which jobs count, `messages.py` and `tables.py`
contain the text, and `report.py` builds the report.
"""
