"""Overhead of our jobs over a plain Trainer script, and over the job's own training without supervisor and tracking.

Open `bench_overhead.py` first. `plain_script.py` is the script, and `job_program.py` runs a job's training.
"""
