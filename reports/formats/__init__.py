"""Renderers of a report: HTML page, Markdown, terminal, JSON, and MLflow metrics and run names.

They depend on the report model and compute no figures. Open `html.py` first.
"""
