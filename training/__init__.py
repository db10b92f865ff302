"""One training job: what it is, where it runs, and what runs in its container.

Open `contract/job_spec.py` first. MLflow belongs in `tracking`; nothing here imports it.
"""
