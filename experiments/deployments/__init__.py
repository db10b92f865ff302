"""Registration, deployment and prediction: the verbs `register`, `deploy`, `predict`, `undeploy` and `endpoints`.

Open `deploy_model.py` first, then `known_endpoints.py`: the record of the endpoints that were deployed from this
machine. Serving itself belongs in `models`.
"""
