"""MLflow, both directions: a job's events become runs, runs become tables and reports."""
