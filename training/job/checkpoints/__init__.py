"""Checkpoints: write them whole, keep the newest and the best, restore every random state.

Open `checkpoint_files.py` first.
"""
