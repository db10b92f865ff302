"""Values of `auto`, chosen by a trial of a few real steps, and a CPU's threads beside other processes.

Open `trial.py` first. The rules by device are in `measuring/hardware.py`.
"""
