"""Find the source of the rows: the user's files here or in S3, the Hugging Face Hub or the demo data.

How a file is read belongs to `formats`. Open `sources.py` first.
"""
