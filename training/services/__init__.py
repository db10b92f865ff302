"""Where a job runs: this machine or SageMaker, behind one protocol.

Open `launcher.py` first: it submits, follows and stops a job on either service. The protocol itself is
`training.contract.service`.
"""
