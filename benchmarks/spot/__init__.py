"""Time of trainings that a random clock kills, as spot capacity does, compared with the expected time.

Open `bench_spot.py` first. `killed_training.py` runs one training with its kills, and `replay.py` has its model.
"""
