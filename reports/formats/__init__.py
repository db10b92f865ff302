"""Renderers of a report: HTML page, Markdown, terminal, JSON, metrics and run name in MLflow.

They know the model only and compute no figures. Open `html.py` first.
"""
