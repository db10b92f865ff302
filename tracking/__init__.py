"""MLflow runs in both directions: a job's events become a run, and runs become tables.

Open `recording/recorder.py` for writing and `queries/job_tables.py` for reading. Reports belong in `reports`.
"""
