"""Plan the jobs of an experiment: arms, hyperparameters, staged inputs and job specs.

The same experiment always gives the same jobs. Open `plan.py` first; `command_plan.py` is the plan of a whole command
as data. Code that starts jobs belongs in `experiments.running`.
"""
