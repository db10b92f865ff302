"""Checkpoints: write only complete ones, keep the newest and the best, restore all random states.

The training loop decides when to save; this room decides what a valid checkpoint is. Open `checkpoint_files.py` first.
"""
