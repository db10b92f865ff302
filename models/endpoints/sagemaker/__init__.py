"""Endpoints on SageMaker, by boto3.

Open `endpoints.py` first; `requests.py` builds the three API requests, and `container` answers questions.
"""
