"""Implementations of attention that the job adds to those of transformers."""
