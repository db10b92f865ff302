"""Endpoints on this machine: each a server process of its own, which outlives the command that started it."""
