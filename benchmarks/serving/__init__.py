"""Processes of the serving benchmark: the direct loop and the clients."""
