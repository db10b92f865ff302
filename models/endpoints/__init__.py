"""Deploy models to endpoints, list endpoints and delete them, on this machine or on SageMaker.

Open `protocol.py` first: it defines the calls that `local` and `sagemaker` implement.
"""
