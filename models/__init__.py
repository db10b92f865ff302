"""A trained model in use: logged, registered, deployed and asked for predictions.

`lookup` finds the model of a run, `logged` and `registry` put it into MLflow, `loading` and `inference` compute
answers, `batch` answers a file, `server` answers over HTTP and `endpoints` deploys. Open `endpoints/protocol.py` first.
"""
