"""Experiment files, and the code that turns them into jobs.

`schema` defines the fields, `planning` turns an experiment into jobs, `running` starts and follows them, and
`commands` has the verbs of the command line. Open `commands/` first. Training and measuring belong in
`training`.
"""
