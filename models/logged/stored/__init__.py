"""Code that is stored with each logged model and runs wherever the model is served.

It imports nothing else of this project. It is a single module because MLflow loads a single file.
"""
