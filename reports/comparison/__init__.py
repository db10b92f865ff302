"""The comparison of a group's arms: summaries, verdicts, tables and sentences.

Open `comparison.py` first, then `verdict.py`. `messages.py`, `columns.py` and `definitions.py` contain the text, and
`report.py` builds the report. The other kinds of reports also use `job_table.py` and `ran_on.py`.
"""
