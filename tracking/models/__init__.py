"""Trained models in MLflow: logged to their runs, found by the runs' names, registered past a gate of quality."""
