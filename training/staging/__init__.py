"""Prepare a job's data and model: read, check and split the rows, tokenise them once, and write the channels.

Open `stage.py` first. `sources` reads files, `rows` checks the rows, `models` finds the model, `tokens` tokenises, and
`tasks` contains the differences between the tasks.
"""
