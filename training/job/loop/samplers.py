"""The order of the rows that a job's settings ask for."""

from typing import Optional

import transformers

from data.sampler import EvalSampler, Sharing, TrainSampler
from processes import ranks
from settings.job_settings import Settings


def train_sampler(settings: Settings, batch_size: Optional[int] = None) -> TrainSampler:
    """Return the order of the training rows, at the settings' batch size or another."""
    arguments = settings.arguments
    return TrainSampler(
        settings.train.rows.lengths,
        _sharing(settings, batch_size or arguments.batch_size),
        arguments.seed,
        grouped=arguments.length_grouping and settings.padding.kind != "max_length",
        drops_last=arguments.drop_last,
    )


def eval_sampler(settings: Settings) -> EvalSampler:
    """Return the order of the rows that are evaluated."""
    return EvalSampler(len(settings.evaluated.rows), _sharing(settings, settings.arguments.eval_batch_size))


def _sharing(settings: Settings, batch_size: int) -> Sharing:
    # Versions without accelerate leave it to the sampler to give each process its share.
    by_trainer = hasattr(transformers.Trainer, "create_accelerator_and_postprocess")
    return Sharing(batch_size, settings.processes, None if by_trainer else ranks.rank())
