"""Read the tracking server: jobs as tables, metric histories, jobs selected by name, and what recorded jobs cost.

Open `job_tables.py` first. Verdicts and texts about jobs belong in `reports`.
"""
