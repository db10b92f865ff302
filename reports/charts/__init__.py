"""Numbers to pictures: PNG for MLflow and SVG for the page.

Open `canvas.py` first; every chart is drawn on it.
"""
