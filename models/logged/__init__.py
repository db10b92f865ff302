"""Log the models of completed jobs to their MLflow runs, and fetch them back as folders.

Open `log_model.py` first. Code that is stored with a model and imports nothing of ours is in `stored/`.
"""
