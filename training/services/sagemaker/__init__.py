"""Training jobs on Amazon SageMaker, through boto3: the only room of `training` that imports it.

Open `service.py` first.
"""
