"""Training jobs on this machine, under the contract of SageMaker's script mode.

Open `service.py` first; `supervisor.py` is the process that looks after one job.
"""
