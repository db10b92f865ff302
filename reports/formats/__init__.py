"""Forms of a finished report: HTML page, terminal text, metrics and run name in MLflow.

Open `report.py` first. Nothing here computes a figure.
"""
