"""Files that go beside a script into its job: the meter of each process, and the reporter of what it counts."""
