"""The verb `sweep`: what its fields mean, the jobs that it plans, and its course from timing to report."""
