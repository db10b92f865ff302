"""Third-party packages: the lock files, and the page of their licences.

For maintainers: `make lock` runs `write_locks.py`, and `make licences` runs `write_licences.py`. Nothing here is needed
to run trainfare.
"""
