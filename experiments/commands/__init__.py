"""The command line: one file for each verb, with its options, help and examples.

Open the file named after the verb. It imports only click, so that `--help` answers immediately; when it runs, it
imports the function that does the work. `verb.py` and `verb_group.py` contain the code that the verbs share.
"""
