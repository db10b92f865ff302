"""Plan the jobs of an experiment: arms, hyperparameters, staged inputs and job specs.

The same experiment always gives the same jobs. Open `plan.py` first. Code that starts jobs belongs in
`experiments.running`.
"""
