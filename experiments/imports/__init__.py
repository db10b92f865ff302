"""Import of training jobs that others started on SageMaker into MLflow: `attach --job` and `attach --tuning-job`.

Open `import_jobs.py` first. `described_job.py` turns the service's description of a job into a planned job. How a job
is followed and recorded belongs in `tracking`.
"""
