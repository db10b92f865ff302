"""Charts: PNG for MLflow and SVG for the page.

Open `canvas.py` first; it draws every chart. `report_charts.py` and `sweep_charts.py` list each report's charts.
"""
