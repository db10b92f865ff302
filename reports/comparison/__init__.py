"""The comparison of a group's arms: summaries, verdicts, tables and sentences.

Open `comparison.py` first, then `verdict.py`. `messages.py`, `columns.py` and `definitions.py` hold the words, and
`report.py` builds the report. `job_table.py` and `ran_on.py` serve the other kinds of reports too.
"""
