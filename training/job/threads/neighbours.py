"""Decide from the load of the CPUs whether this job's threads have enough of them. Pure."""

CROWDED_ABOVE = 0.6
"""The CPUs become crowded when the job's threads lack more than this many CPUs. The limit is below 0.67: beside two
spinning threads on two CPUs, a process that is always busy gets no more."""
FREE_BELOW = 0.25
"""The CPUs are free again when the threads lack less than this."""
CALM_READINGS = 2
"""Consecutive readings with free CPUs after which the CPUs are no longer crowded."""


class SharedCpus:
    """The CPUs of a job, which other processes may use too."""

    def __init__(self, cpus: int) -> None:
        """Begin with free CPUs. `cpus` is the number of CPUs of the job."""
        self._cpus = cpus
        self.is_crowded = False
        """True while several threads lack CPUs, by the limits above."""
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
