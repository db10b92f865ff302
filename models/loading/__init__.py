"""Load a trained model from its folder, check its inputs and encode them as padded batches.

Open `loaded_model.py` first. Computing answers belongs in `models.inference`.
"""
