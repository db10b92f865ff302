"""Code that is stored with each logged model and runs wherever the model is served.

It imports nothing of ours. One module is enough: MLflow loads a single file.
"""
