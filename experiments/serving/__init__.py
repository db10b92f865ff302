"""Models in use: the verbs `deploy`, `predict`, `undeploy` and `endpoints`."""
