"""The HTTP server of one model: `python -m models.server`.

Open `app.py` first; `batcher.py` runs concurrent requests together.
"""
