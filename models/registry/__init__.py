"""Register models as versions, and check them by the quality gate.

Open `registry.py` first; `gate.py` holds the rules and is pure.
"""
