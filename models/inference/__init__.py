"""A loaded model and its answers. The task (`training/job/tasks`) reads inputs and makes answers.

Open `predictor.py` first. HTTP belongs in `models.server`, prediction of files in `models/batch.py`.
"""
