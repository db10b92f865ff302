"""Endpoints on this machine: server processes that keep running when the command that started them ends.

Open `endpoints.py` first.
"""
