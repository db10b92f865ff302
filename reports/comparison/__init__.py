"""The comparison of a group's arms: summaries, verdicts and their wording.

Open `comparison.py` first, then `verdict.py`.
"""
