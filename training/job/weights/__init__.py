"""Weights on disk: the model to start from, and the checkpoints of a training.

The training loop decides when to save. Open `pretrained.py` first.
"""
