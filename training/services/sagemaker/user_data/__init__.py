"""Data that users keep in their own buckets: its address, its version, and what a manifest lists.

Nothing here writes to S3; uploads belong to `storage.py`. Open `listing.py` first.
"""
