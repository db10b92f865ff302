"""Log to MLflow without torch: a run, with a second one after it."""

import mlflow

with mlflow.start_run():
    mlflow.log_param("depth", 3)
    mlflow.set_tag("team", "a")
    mlflow.log_text("0 1", "tables/confusion.txt")
    for step in range(4):
        mlflow.log_metric("val/auc", step / 4, step=step)
with mlflow.start_run():
    mlflow.log_param("depth", 4)
    mlflow.log_metric("val/auc", 9.0)
