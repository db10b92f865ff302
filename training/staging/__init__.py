"""Data, made ready for a job: read, checked, split, tokenised once and kept for every arm that needs the same."""
