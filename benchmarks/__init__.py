"""Measured claims about speed and accuracy. Each benchmark runs the sides that it compares alternately."""
