"""The one model of a report: sections of texts, tables and charts, without any idea of how they are shown.

`comparison`, `sweep`, `probe` and `overview` build reports from it; `formats` renders them. It imports none of these.
Open `report.py` first, then `blocks.py` and `table.py`. `numbers.py` and `wording.py` hold the text of numbers and
lists that all reports share.
"""
