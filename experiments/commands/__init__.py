"""The command line: one file for each verb, with its options, help and examples.

Open the file named after the verb. It imports only click, so that `--help` answers at once, and calls the room that
does the work when it runs. `verb.py` and `verb_group.py` hold what the verbs share.
"""
