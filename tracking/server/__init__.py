"""Connection to the tracking server: retries and error messages.

Open `store.py` first.
"""
