"""Run a sweep, from the experiment file to the report: calibration, trials, repeats of the winner.

Open `sweep_worker.py` first. The search itself (space, cost model, Optuna studies, workers) belongs in `sweeps`.
"""
