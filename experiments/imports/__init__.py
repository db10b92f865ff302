"""Import of a training job that others started on SageMaker into MLflow: `attach --job`.

Open `import_job.py` first. `described_job.py` turns the service's description of a job into a planned job. How a job
is followed and recorded belongs in `tracking`.
"""
