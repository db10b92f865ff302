"""Serve one model over HTTP: `python -m models.server`.

Open `app.py` first. `batcher.py` runs concurrent requests together.
"""
