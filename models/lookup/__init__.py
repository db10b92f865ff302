"""Find the trained model of a run, a group or a registered version, with its evaluation.

Open `trained_model.py` first. Changing the registry belongs in `models.registry`.
"""
