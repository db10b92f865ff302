"""Search batch size and learning rate for the cheapest training that is good enough.

`space` defines what is searched, `cost_model` predicts what a setting costs, `study` keeps the trials in Optuna and
`workers` runs them. Open `workers/worker.py` first.
"""
