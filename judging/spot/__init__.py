"""Expected time of a training whose machines can be reclaimed at any time, as on spot capacity. Pure.

Open `expected_time.py` first. `checkpoint_interval.py` has the best time between two checkpoints, and `rates.py` AWS's
published interruption rates.
"""
