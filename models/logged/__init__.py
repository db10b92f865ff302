"""Log the models of completed jobs to their MLflow runs, and fetch logged models as folders.

Open `log_model.py` first. `pyfunc.py` and what it imports of ours are stored with each model.
"""
