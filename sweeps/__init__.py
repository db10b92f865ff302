"""Search batch size and learning rate for the cheapest training that is good enough.

`search_space.py` defines the points, `trials.py` the objective and the trials, `early_stopping.py` the decisions,
`optuna_study.py` and `storage.py` keep the trials. Open `worker.py` first: it runs them.
"""
