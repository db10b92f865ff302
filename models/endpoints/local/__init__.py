"""Endpoints on this machine: server processes that outlive the command that started them.

Open `endpoints.py` first.
"""
