"""The lock files of third-party packages, for maintainers: `make lock` runs `write_locks.py`."""
