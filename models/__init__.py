"""Log, register and deploy trained models, and predict with them.

`lookup` finds a run's model. `logged` and `registry` put it into MLflow. `loading` and `inference` compute answers.
`batch` predicts every row of a file, `server` answers over HTTP and `endpoints` deploys. Open `endpoints/protocol.py`
first.
"""
