"""The overview of a whole MLflow experiment: every group's answer and what all jobs cost.

Open `overview.py` first.
"""
