"""The fields of an experiment. Every field of a file is here, with its unit and its rule."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from experiments.schema.machine_fields import Aws, Machine
from experiments.schema.published_fields import Published
from experiments.schema.quality_metrics import QualityMetric
from experiments.schema.script_fields import Script
from experiments.schema.sweep_fields import Sweep
from sweeps.space.scaling import Optimiser, ScalingRule, scale
from training.contract.job_spec import Compiler
from training.staging.sources.request import Data, Frozen, ModelOverrides, Name, Task

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
BatchSize = Annotated[int, Field(ge=1, le=1_048_576)]
BucketLengths = Annotated[tuple[Annotated[int, Field(ge=1, le=131_072)], ...], Field(strict=False, min_length=1)]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]


class Target(Frozen):
    """The quality at which an arm counts as having arrived."""

    metric: QualityMetric
    """Evaluation metric, as MLflow shows it."""
    value: float
    """Value to reach, in the metric's unit."""
    direction: Literal["min", "max"] | None = None
    """Whether lower (`min`) or higher (`max`) is better; None is what the metric implies."""
    stop: bool = False
    """End the training when the target is reached."""


class PushToHub(Frozen):
    """Where the trained model goes, and where the token for it is; the token itself is told to nobody."""

    repository: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$")]
    """Repository on the Hub, owner/name; made where there is none."""
    private: bool = True
    """Make it a private one, and refuse one that is public."""
    revision: Name | None = None
    """Branch that is pushed to; None is `main`."""
    commit_message: Name | None = None
    """Of the commit; None tells the task."""
    token_variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] = "HF_TOKEN"
    """Environment variable that holds the token, here on the machine that starts the job."""
    token_secret: Annotated[str, Field(pattern=r"^[A-Za-z0-9/_+=.@:-]{1,512}$")] | None = None
    """Secret of AWS Secrets Manager that holds the token instead, by name or ARN; the job reads it itself."""


class Compare(Frozen):
    """What a comparison runs."""

    arms: Annotated[tuple[dict[str, Any], ...], Field(strict=False, min_length=1, max_length=64)] = (
        {"compiler": "none"},
        {"compiler": "inductor"},
    )
    """The fields that each arm sets otherwise than the experiment."""
    repeats: Annotated[int, Field(ge=1, le=1_000)] = 9
    """Jobs of each arm, each with another seed; how many find what gain, docs/benchmarks.md tells (verdict)."""
    baseline: Name | None = None
    """Label of the arm that the others are compared with; None is the first."""
    parallel: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Jobs at a time; on this machine each still waits for the cores or devices it takes."""


class Probe(Frozen):
    """How far the verb `probe` trains each arm."""

    precision: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    """An arm ends when half the 95 % interval of its projected seconds is no wider than this, relative to them."""
    samples: Count | None = None
    """Samples after which it ends in any case; None is a tenth of the training."""
    eval_samples: Count = 256
    """Validation rows of a probe's evaluations."""


class Calibration(Frozen):
    """What the calibration job of a sweep measures; nothing is trained and no model kept."""

    batch_sizes: Annotated[tuple[BatchSize, ...], Field(strict=False, min_length=1, max_length=256)]
    """Batch sizes of each device, ascending, samples; those beyond the first that does not fit are left out."""
    seconds: Annotated[float, Field(gt=0.0, le=3_600.0)] = 2.0
    """How long the steps of each are measured, about; at least four steps and at most thirty."""


class ExperimentFields(Frozen):
    """One experiment, complete and checked."""

    description: str = ""
    """What the experiment is for, in a sentence or two."""
    task: Task = "classification"
    """What is learnt."""
    script: Script | None = None
    """A script to run in place of a task; the other fields are then values for its hyperparameters to take."""
    model: Name | None = None
    """Hub name, folder, or `package:` and the name of a packaged model; exactly one of it and `model_type` is given."""
    model_revision: Name | None = None
    """Branch, tag or commit of a Hub model; None is `main`."""
    weights: Literal["pretrained", "random"] | None = None
    """Start from the model's weights, or from random ones in its architecture; None is what there is: `pretrained` for
    a `model`, `random` for a `model_type`."""
    model_type: Name | None = None
    """Architecture of Transformers to train from scratch, such as `gpt2`."""
    model_overrides: ModelOverrides = Field(default_factory=dict)
    """Fields of the model's configuration to set otherwise, such as `n_layer`; goes with random weights."""
    tokenizer: Name | None = None
    """Hub name, folder, or `package:` and the name of a packaged tokenizer; None is the model's own. Goes with random
    weights: others were trained with their own."""
    data: Data | None = None
    """The labelled texts."""
    max_length: Annotated[int, Field(ge=8, le=131_072)] = 128
    """Longest sequence, special tokens included; longer ones are cut, tokens."""

    doc_stride: Annotated[int, Field(ge=0, le=131_072)] = 128
    """Question answering: tokens of the context that neighbouring windows share; below `max_length`."""
    n_best_answers: Annotated[int, Field(ge=1, le=1_000)] = 20
    """Question answering: likeliest starts and ends of a window that evaluation pairs."""
    max_answer_length: Annotated[int, Field(ge=1, le=131_072)] = 30
    """Question answering: longest answer that evaluation looks for, tokens."""

    packing: bool | None = None
    """Causal language modelling: join the tokens of all texts and cut them in blocks of `max_length`, or keep each text
    a row; None joins them."""

    base_learning_rate: Annotated[float, Field(gt=0.0, le=10.0)] = 3e-5
    """Peak learning rate that suits `base_batch_size`, per step."""
    base_batch_size: BatchSize = 32
    """Global batch size that `base_learning_rate` is for, samples."""
    learning_rate_scaling: ScalingRule = "linear"
    """How the learning rate follows from the global batch size."""
    learning_rate_multiplier: Annotated[float, Field(gt=0.0, le=1024.0)] = 1.0
    """Factor on the learning rate that the scaling rule gives; what a sweep searches."""
    max_learning_rate: Annotated[float, Field(gt=0.0, le=10.0)] | None = None
    """Largest peak learning rate, whatever rule and multiplier give, per step; None holds it nowhere."""
    batch_size: BatchSize = 32
    """Batch size of each device, samples."""
    eval_batch_size: BatchSize | None = None
    """Batch size of each device in evaluation, samples; None is `batch_size`."""
    drop_last: bool = False
    """Leave out the rows at the end of an epoch that do not fill a batch of every device."""
    gradient_accumulation_steps: Annotated[int, Field(ge=1, le=65_536)] = 1
    """Batches whose gradients make one step."""
    epochs: Annotated[float, Field(gt=0.0, le=100_000.0)] | None = None
    """Passes over the training rows; exactly one of `epochs` and `max_steps` is given."""
    max_steps: Count | None = None
    """Optimiser steps."""
    warmup_samples: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0
    """Samples over which the learning rate rises from 0; in samples, so that it is the same work at any batch."""
    lr_scheduler: Literal["linear", "cosine", "constant"] = "linear"
    """Course of the learning rate after the warm-up."""
    adam_beta1: Beta = 0.9
    """Decay of Adam's first moment at `base_batch_size`, per step."""
    adam_beta2: Beta = 0.999
    """Decay of Adam's second moment at `base_batch_size`, per step."""
    adam_epsilon: Annotated[float, Field(gt=0.0, le=1.0)] = 1e-8
    """Added to the root of the second moment at `base_batch_size`, in units of the gradient."""
    weight_decay: Annotated[float, Field(ge=0.0, le=10.0)] = 0.0
    """Decoupled weight decay, a factor of the learning rate."""
    max_grad_norm: Annotated[float, Field(ge=0.0, le=1e6)] = 1.0
    """Norm to which gradients are clipped; 0 clips nothing."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 42
    """Seed of the new weights and the data order; repeats count up from it."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Number format of the arithmetic; `auto` takes the fastest that the device supports."""
    padding: Literal["longest", "buckets", "max_length"] = "buckets"
    """Pad to the longest of the batch, to the next bucket length, or to `max_length`."""
    bucket_lengths: BucketLengths | None = None
    """Bucket lengths, ascending, tokens; None chooses them from the data."""
    length_grouping: bool = True
    """Put rows of like length in one batch, unless all are padded to `max_length` anyway."""
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = "auto"
    """How the model computes attention; `auto` is the fastest that it has (flash_attention_2 needs its package)."""
    dropout: Literal["auto", "torch"] = "auto"
    """How dropout draws on a processor: its random bits in bulk (`auto`), or one number an element (`torch`)."""
    optimizer: Literal["auto", "adamw"] = "auto"
    """AdamW in a single kernel where torch has one (`auto`), or one kernel for each of its operations (`adamw`)."""
    dataloader_workers: Annotated[int, Field(ge=0, le=256)] | None = None
    """Processes of each device that make batches; None is 2 on a GPU and none on a processor, which trains itself."""
    compiler: Compiler = "none"
    """Compiler setting."""
    compiler_debug: bool = False
    """Compiler `trcomp`: dump what it does to the job's output; slows training down."""
    allocator: Literal["keep", "system"] = "keep"
    """Keep memory that a step has freed for the next one, or give it back to the system and ask for it again."""
    compile_cache: Literal["keep", "fresh"] = "keep"
    """Let a job find what earlier ones compiled, or start each with an empty cache."""

    logging_steps: Count = 10
    """Steps between two logged training losses."""
    eval_strategy: Literal["end", "epoch", "steps", "samples"] = "epoch"
    """Evaluate at the end, after every epoch, every `eval_steps` or every `eval_samples`; the end always."""
    eval_steps: Count | None = None
    """Steps between two evaluations."""
    eval_samples: Count | None = None
    """Samples between two evaluations, so that they come at the same points of the training at every batch size."""
    save_strategy: Literal["none", "epoch", "steps"] = "none"
    """Write checkpoints never, after every epoch, or every `save_steps`."""
    save_steps: Count | None = None
    """Steps between two checkpoints."""
    save_total_limit: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Checkpoints kept; the best one always is."""
    best_metric: QualityMetric | None = None
    """Evaluation metric by which the best model is kept; it needs a checkpoint after every evaluation. None keeps the
    last."""
    save_model: bool = True
    """Keep the trained model as the job's artifact."""
    log_model: bool = True
    """Log the model of each job that completes to its MLflow run, from that artifact; it then answers there:
    `mlflow models serve -m runs:/RUN/model`."""
    push_to_hub: PushToHub | None = None
    """Push the trained model to the Hugging Face Hub after `train`; a comparison pushes none."""
    steady_after_steps: Annotated[int, Field(ge=1, le=1_000_000)] = 3
    """Steps left out of the steady throughput as warm-up."""
    target: Target | None = None
    """Quality to reach; None measures the whole training only."""

    service: Literal["local", "sagemaker"] = "local"
    """Where the job runs."""
    machine: Machine = Machine()
    """What the job runs on."""
    aws: Aws = Aws()
    """Whose account, network and keys, on SageMaker."""
    compare: Compare = Compare()
    """What a comparison runs."""
    probe: Probe | None = None
    """How far the verb `probe` goes; others train to the end."""
    calibration: Calibration | None = None
    """Batch sizes of which the job measures a few steps each, in place of training; None trains."""
    sweep: Sweep = Sweep()
    """What the verb `sweep` searches."""
    published: Published | None = None
    """What was published of this recipe, for reports to show beside what they measure."""

    @property
    def first_weights(self) -> Literal["pretrained", "random"]:
        """What the training starts from."""
        return self.weights or ("random" if self.model_type else "pretrained")

    @property
    def global_batch_size(self) -> int:
        """Samples of one optimiser step, over all devices and machines."""
        processes = self.machine.devices * self.machine.instance_count
        return self.batch_size * processes * self.gradient_accumulation_steps

    @property
    def evaluation(self) -> tuple[str, int | None]:
        """When the job evaluates, in steps: its strategy, and the steps between two evaluations."""
        if self.eval_strategy == "samples" and self.eval_samples is not None:
            return "steps", max(1, round(self.eval_samples / self.global_batch_size))
        return self.eval_strategy, self.eval_steps

    @property
    def optimiser(self) -> Optimiser:
        """The optimiser's settings at the global batch size."""
        base = Optimiser(
            learning_rate=self.base_learning_rate,
            adam_beta1=self.adam_beta1,
            adam_beta2=self.adam_beta2,
            adam_epsilon=self.adam_epsilon,
        )
        return scale(
            self.learning_rate_scaling,
            base,
            base_batch_size=self.base_batch_size,
            global_batch_size=self.global_batch_size,
            multiplier=self.learning_rate_multiplier,
            largest_learning_rate=self.max_learning_rate,
        )

    @property
    def learning_rate(self) -> float:
        """Peak learning rate at the global batch size, per step."""
        return self.optimiser.learning_rate
