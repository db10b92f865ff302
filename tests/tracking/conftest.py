"""A real tracking store for every test of `tracking`."""

from tests.support.tracking.tracked import tracked, tracked_by_server

__all__ = ["tracked", "tracked_by_server"]
