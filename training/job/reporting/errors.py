"""What can be wrong with a job, said in one sentence."""


class ArgumentError(Exception):
    """An argument or environment variable is unknown, missing or wrong."""


class BadData(Exception):
    """A channel cannot be read, or does not fit the task or the model."""


class Unsupported(Exception):
    """This machine or this version cannot do what was asked."""


class Unwritable(Exception):
    """A checkpoint cannot be written; earlier ones are as they were."""


class Stopped(BaseException):
    """SIGTERM was received. No `Exception`, so that no library takes it for an error of its own and goes on."""
