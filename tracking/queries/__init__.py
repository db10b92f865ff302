"""Read the tracking server: jobs as tables, metric histories, jobs selected by name.

Open `job_tables.py` first.
"""
