"""Training jobs on Amazon SageMaker. No other package of `training` imports boto3.

Open `service.py` first.
"""
