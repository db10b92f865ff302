"""The HTTP server of one model: `python -m serving.server`."""
