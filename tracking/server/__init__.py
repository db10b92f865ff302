"""The connection to the tracking server: retries, error messages and the MLflow UI.

Open `store.py` first.
"""
