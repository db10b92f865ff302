"""Jobs on a real Slurm cluster of this machine: kills and requeues (`kills.py`), and the overhead (`overhead.py`)."""
