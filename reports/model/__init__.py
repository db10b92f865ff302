"""The model of a report: sections of texts, tables and charts, independent of the output format.

The other rooms build reports from it, and `formats` renders them. This room imports none of them. Open `report.py`
first. `numbers.py` formats numbers and lists for all reports.
"""
