"""Code that is stored with each logged model and runs where the model is served.

It imports no other module of this project. It is a single module because MLflow loads a single file.
"""
