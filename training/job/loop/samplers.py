"""Samplers with the row order that a job's settings select, for training and for evaluation."""

from typing import Optional

import transformers

from data.sampler import BatchSharding, EvalSampler, TrainSampler
from processes import ranks
from settings.job_settings import Settings


def train_sampler(settings: Settings, batch_size: Optional[int] = None) -> TrainSampler:
    """Return the sampler of the training rows. `batch_size` replaces the settings' batch size."""
    arguments = settings.arguments
    return TrainSampler(
        settings.train.rows.lengths,
        _sharding(settings, batch_size or arguments.batch_size),
        arguments.seed,
        grouped=arguments.length_grouping and settings.padding.kind != "max_length",
        drops_last=arguments.drop_last,
    )


def eval_sampler(settings: Settings) -> EvalSampler:
    """Return the sampler of the rows to evaluate."""
    return EvalSampler(len(settings.evaluated.rows), _sharding(settings, settings.arguments.eval_batch_size))


def _sharding(settings: Settings, batch_size: int) -> BatchSharding:
    # Versions of Trainer without accelerate rely on the sampler to give each process its share.
    trainer_shards = hasattr(transformers.Trainer, "create_accelerator_and_postprocess")
    return BatchSharding(batch_size, settings.processes, None if trainer_shards else ranks.rank())
