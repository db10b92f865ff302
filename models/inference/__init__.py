"""Compute a model's answers, one file a task.

Open `predictor.py` first. HTTP belongs in `models.server`, files of rows in `models.batch`.
"""
