"""Amazon Web Services through boto3: SageMaker as a training service, S3 for what jobs read, CloudWatch for logs."""
