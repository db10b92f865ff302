"""The command line: one file for each verb.

A file here reads the verb's options and calls the rooms below. Open the file named after the verb.
"""
