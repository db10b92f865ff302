"""The report of a group of probes: projected time and cost of each arm.

Two modules, because a probe's report is small: `projections.py` computes and `messages.py` words it.
"""
