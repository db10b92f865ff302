"""The model that a job starts from, and its files.

Open `starting_model.py` first. No model library is imported here.
"""
