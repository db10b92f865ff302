"""From the tracking server to answers: reports with verdicts, tables and charts.

`model` defines what a report is. `comparison`, `sweep`, `probe`, `training.py` and `overview.py` build one each,
`charts` draws, and `formats` renders. Open `render.py` first. Arithmetic that is not about reports belongs in
`judging`.
"""
