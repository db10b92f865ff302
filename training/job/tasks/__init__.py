"""What a job can learn: one file a task."""

from tasks import classification

TASKS = {"classification": classification}
