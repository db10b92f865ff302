"""Prepare data and model for a job: read, check and split the rows, tokenise them once, and write the channels.

Open `stage.py` first. `sources` reads files, `rows` checks the rows, `models` finds the model, `tokens` tokenises, and
`tasks` holds the differences between the tasks.
"""
