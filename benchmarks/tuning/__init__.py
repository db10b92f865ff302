"""Choices of `auto` on a CPU compared with all fixed choices, and jobs beside other processes.

Run `python -m benchmarks auto` and `python -m benchmarks neighbours`.
"""
