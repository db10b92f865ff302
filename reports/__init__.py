"""From the tracking server to answers: tables of numbers, verdicts, charts and pages.

`comparison`, `sweep`, `probe` and `overview` compute what each report says; `charts` draws; `formats` writes HTML,
terminal text and MLflow metrics. Open `render.py` first. Arithmetic that needs no report belongs in `judging`.
"""
