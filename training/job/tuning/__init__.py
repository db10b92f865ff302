"""Values of `auto` on a CPU, chosen by a trial of a few real steps, and threads beside other processes.

Open `trial.py` first. The rules by device are in `measuring/hardware.py`.
"""
