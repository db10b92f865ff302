"""Run a sweep, from the experiment file to the report: calibration, trials, repeats of the winner.

`sweep_plan.py` plans the jobs and checks them; `sweep_worker.py` runs them. The search itself (space, cost model,
Optuna studies, workers) belongs in `sweeps`.
"""
