"""Experiment files and everything between them and the jobs.

`schema` defines the fields, `planning` turns an experiment into jobs, `running` starts and follows them, and
`commands` holds one file for each verb of the command line. Open `commands/` first; nothing here trains or measures.
"""
