"""Endpoints on SageMaker, by boto3.

Open `endpoints.py` first: the calls, then the requests that they send. `container` answers questions.
"""
