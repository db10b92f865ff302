"""Measured claims about speed and accuracy. Each benchmark alternates the sides that it compares in one run."""
