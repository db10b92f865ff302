"""The model of a report: sections of texts, tables and charts, independent of the output format.

`comparison`, `sweep`, `probe` and `overview` build reports from it, and `formats` renders them. This room imports none
of them. Open `report.py` first, then `blocks.py` and `table.py`. `numbers.py` and `wording.py` format numbers and lists
for all reports.
"""
