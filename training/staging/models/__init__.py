"""Find the files of the model that a job starts from.

Open `starting_model.py` first. No model library is imported here.
"""
