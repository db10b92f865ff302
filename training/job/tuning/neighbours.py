"""Decide from the load of the CPUs whether this job's threads have enough of them. Pure."""

CROWDED_ABOVE = 0.6
"""The CPUs become crowded when other processes use more than this part of a CPU that a thread needs. Beside threads
that wait in a loop, a process that is always busy gets only two thirds of one CPU out of two."""
FREE_BELOW = 0.25
"""The threads have enough CPUs again when other processes use less than this part of one that a thread needs."""
CALM_READINGS = 2
"""Consecutive readings with free CPUs after which the CPUs are no longer crowded."""


class SharedCpus:
    """The CPUs of a job, which other processes may use too."""

    def __init__(self, cpus: int) -> None:
        """Begin with free CPUs. `cpus` is the number of CPUs of the job."""
        self._cpus = cpus
        self.is_crowded = False
        """True if other processes leave fewer CPUs than the job has threads."""
        self._calm = 0

    def update(self, others_cpus: float, threads: int) -> bool:
        """Return whether the CPUs are crowded, after a reading in which others used `others_cpus` CPUs."""
        missing = threads - (self._cpus - others_cpus)
        self._calm = self._calm + 1 if missing < FREE_BELOW else 0
        if threads > 1 and missing > CROWDED_ABOVE:
            self.is_crowded = True
        elif self._calm >= CALM_READINGS or threads == 1:
            self.is_crowded = False
        return self.is_crowded
