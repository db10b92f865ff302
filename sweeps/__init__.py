"""Searching batch size and learning rate for the cheapest training that is good enough."""
