"""What is run: experiment files, and the verbs of the command line."""
