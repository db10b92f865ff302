"""What the verbs `deploy`, `predict`, `undeploy` and `endpoints` share.

Open `known_endpoints.py` first: the record of the endpoints that were deployed from this machine. Serving itself
belongs in `models`.
"""
