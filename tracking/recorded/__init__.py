"""One job as the tracking server records it, and what recorded jobs say about the cost of others. Pure.

Plans and reports both use this room; arms and verdicts belong in `reports`.
"""
