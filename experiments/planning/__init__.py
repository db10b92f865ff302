"""From an experiment to its jobs: arms, hyperparameters, staged inputs and job specs.

The same experiment always plans the same jobs. Open `plan.py` first. Starting the jobs belongs in
`experiments.running`.
"""
