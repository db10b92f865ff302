"""Deploy a model to an endpoint, list endpoints and delete them, on this machine or on SageMaker.

Open `protocol.py` first: the calls that `local` and `sagemaker` implement.
"""
