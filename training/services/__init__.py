"""The services that run jobs, each in its own room, and what works in the same way on all of them.

Open `registry.py` first: it lists the services. All implement the protocol in `training.contract.service`, which also
explains the traits by which they differ. `launcher.py` submits, follows and stops a job on any service.
"""
