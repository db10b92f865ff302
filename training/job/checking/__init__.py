"""Check in a few steps that an arm's settings change the time of a training and nothing else.

Open `check.py` first: it lists the trainings of a check. `plain.py` is the training with which they are compared.
"""

TABLE = "check.json"
"""Table of the job's result: a row for each training and step, or for a training that is not possible."""
