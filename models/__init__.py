"""Log, register and deploy trained models, and predict with them.

`trained_model.py` finds a run's model, and `winner.py` a group's. `logged` and `registry.py`, which has the quality
gate, put it into MLflow. `inference` computes answers: `batch.py` for every row of a file, `server` over HTTP.
`endpoints` deploys. Open `endpoints/protocol.py` first.
"""
