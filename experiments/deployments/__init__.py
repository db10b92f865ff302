"""Registration, deployment and prediction: the verbs `register`, `deploy`, `predict`, `undeploy` and `endpoints`.

Open `endpoints.py` first. Serving itself belongs in `models`.
"""
