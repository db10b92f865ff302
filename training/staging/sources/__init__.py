"""Read rows from the user's files, the Hugging Face Hub or the demo data.

Open `sources.py` first.
"""
