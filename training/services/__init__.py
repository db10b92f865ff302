"""The services that run jobs: this machine (`local`) and Amazon SageMaker (`sagemaker`).

Open `launcher.py` first: it submits, follows and stops a job on either service. Both implement the protocol in
`training.contract.service`.
"""
