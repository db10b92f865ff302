"""Acceptance on a real AWS account: `make accept-aws ROLE=... BUDGET=1`.

It runs the smallest version of each way to use SageMaker with trainfare's own commands, and compares what AWS shows
with what the simulated account of the tests does. Open `run.py` first; `steps.py` lists the ways and
`expectations.yaml` what is expected of each. What trainfare does on SageMaker is not here but in the rooms below.
"""
