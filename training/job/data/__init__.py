"""Turn channels into batches: read rows, order them, pad them, and plan the batch shapes.

Building channels from raw data belongs in `training/staging`. Open `channels.py` first.
"""

TEXT_LENGTHS = "text_lengths"
"""Column of a task whose rows have several texts, with the tokens of each. `input_ids` has one text after the other,
and a batch has each as a row of its own."""
SEGMENTS = "segments"
"""Column of a task with the option `packing`, with the tokens of each text in a row. The texts stay in one row of a
batch, but do not see each other."""

TARGET_IDS = "target_ids"
"""Column with the tokens that a decoder generates, if an encoder reads the row's own tokens. Both are work."""
MAX_TARGET_LENGTH = "max_target_length"
"""Option of a channel with such a column: tokens of the longest permitted target."""
IGNORED_LABEL = -100
"""Label that PyTorch's cross entropy ignores."""
