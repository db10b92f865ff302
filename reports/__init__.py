"""From the tracking server to answers: reports with verdicts, tables and charts.

`model` defines what a report is. `comparison`, `sweep`, `probe` and `overview.py` build reports, `charts` draws, and
`formats` renders. Open `render.py` first. Arithmetic that is not about reports belongs in `judging`.
"""
