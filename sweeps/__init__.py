"""Search batch size and learning rate for the cheapest training that is good enough.

`space` defines the search space, `cost_model` decides when to stop a trial or the search, `study` stores the trials
with Optuna and `workers` runs them. Open `workers/worker.py` first.
"""
