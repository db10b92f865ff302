"""The program of a job, which runs in its container: imports nothing else of ours. Runs under Python 3.10.

Open `main.py` first, then `training_run.py`. The launcher's side imports declarations from here, such as the
settings and tasks, but nothing that loads torch.
"""
