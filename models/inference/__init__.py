"""A loaded model and its answers. Each task has one file.

Open `predictor.py` first. HTTP belongs in `models.server`, prediction of files in `models/batch.py`.
"""
