"""Serve one model over HTTP: `python -m models.server`.

Open `app.py` first; it runs concurrent requests together.
"""
