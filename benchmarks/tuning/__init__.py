"""What `auto` chooses on a CPU, compared with every fixed choice, and jobs beside other processes.

Run `python -m benchmarks auto` and `python -m benchmarks neighbours`.
"""
