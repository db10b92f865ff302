"""Entry point of a training job in script mode: `python train.py`, with the arguments and `SM_*` variables of a plan.

The source of a job has this file and, beside it, the package `training` with nothing but the room `job`.
`training/job/main.py` describes the job.
"""

from training.job.main import exit_with_code

if __name__ == "__main__":
    exit_with_code()
