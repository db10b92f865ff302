"""Endpoints on SageMaker, through boto3."""
