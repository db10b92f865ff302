"""Register models as versions, and the quality gate that a version must pass.

Open `registry.py` first; `gate.py` holds the rules and is pure.
"""
