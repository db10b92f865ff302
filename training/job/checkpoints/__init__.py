"""Checkpoints: write them whole, keep the newest and the best, restore every random state.

The training loop decides when to save; this room decides what a valid checkpoint is. Open `checkpoint_files.py` first.
"""
