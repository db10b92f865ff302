"""The rows of a file, answered: checked first, in batches of like length, in the order of the file."""
