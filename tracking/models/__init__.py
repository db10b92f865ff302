"""A job's trained model in MLflow: an MLflow model that answers by itself, logged to the job's run."""
