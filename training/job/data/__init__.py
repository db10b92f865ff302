"""Turn channels into batches: read rows, order them, pad them, and plan the batch shapes.

Building channels from raw data belongs in `training/staging`. Open `channels.py` first.
"""

TEXT_LENGTHS = "text_lengths"
"""Column of a task whose rows have several texts, with the tokens of each. `input_ids` has one text after the other,
and a batch has each as a row of its own."""
