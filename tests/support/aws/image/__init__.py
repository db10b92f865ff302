"""Stand-in for a training image of AWS: the programs between process 1 and the training.

Open `container.py` first: it starts a container. `start_with_right_hostname.sh` is the image's entry point, and `train`
is the toolkit. The folder is on the container's PATH.
"""
