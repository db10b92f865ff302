"""Registration, deployment and prediction: the verbs `register`, `deploy`, `predict`, `undeploy` and `endpoints`.

Open `deploy_model.py` first. Serving itself belongs in `models`.
"""
