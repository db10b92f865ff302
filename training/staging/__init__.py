"""Prepare data and model for a job: read, check, split, tokenise once, and write the channels.

Open `stage.py` first. `sources` reads files, `rows` checks them, `models` finds the model, `tokens` tokenises, and
`tasks` holds what differs between the tasks.
"""
