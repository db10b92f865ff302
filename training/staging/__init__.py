"""Prepare a job's data and model: read, check and split the rows, tokenise them once, and write the channels.

Open `stage.py` first. `sources` reads files, `models` finds the model, and `tokens` selects, checks and tokenises the
rows.
"""
