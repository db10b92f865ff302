"""The comparison of a group's arms: summaries, verdicts, tables and sentences.

Open `comparison.py` first: it judges the arms. `messages.py` and `tables.py` contain the text, and `report.py` builds
the report. Every column of the table is declared once, in `tables.py`.
"""
