"""A script that knows nothing of this project: where it comes from, and what it reads."""
