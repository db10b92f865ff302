"""Training jobs on this machine, run as SageMaker's script mode runs them.

Open `service.py` first. `supervisor.py` is the process that runs one job.
"""
