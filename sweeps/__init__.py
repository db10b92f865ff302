"""Searching batch size and learning rate."""
