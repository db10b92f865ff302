"""Threads of a job on a CPU: their number, and how they wait beside other processes.

Open `thread_control.py` first.
"""
