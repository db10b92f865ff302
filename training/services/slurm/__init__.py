"""Training jobs in allocations of a Slurm cluster. Open `service.py` first; `allocation.py` runs one job there."""
