"""The command line: the verbs with their options, help and examples.

`training.py` has the verbs that run an experiment, `jobs.py` the verbs of started jobs, and `models.py` the verbs of
trained models; `verb.py` is what they share. The files import only click, so that `--help` answers immediately; a verb
imports the function that does the work when it runs.
"""
