"""Exceptions that end a job."""


class ArgumentError(Exception):
    """An argument or environment variable is unknown, missing or invalid."""


class BadData(Exception):
    """A channel cannot be read, or does not fit the task or the model."""


class Unsupported(Exception):
    """The hardware or a library version does not support the requested setting."""


class CheckpointNotWritten(Exception):
    """A checkpoint could not be written. Earlier checkpoints are unchanged."""


class Stopped(BaseException):
    """SIGTERM was received.

    A `BaseException`, so that no library catches it as an ordinary error and continues.
    """
