"""Log the models of completed jobs to their MLflow runs, and fetch logged models as folders.

Open `log_model.py` first. `stored/` has the code that is stored with each model and imports nothing of ours.
"""
