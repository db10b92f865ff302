"""Fields of an experiment file: name, type, default, unit and range of each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from experiments.schema.compare_fields import (
    BatchSize,
    Calibration,
    Compare,
    Count,
    Probe,
    Published,
    QualityMetric,
    Sweep,
    Target,
)
from experiments.schema.machine_fields import Aws, Machine
from experiments.schema.script_fields import Script
from sweeps.search_space import Optimiser, ScalingRule, scale
from training.contract.frozen import Frozen, Name
from training.contract.job_spec import CompileMode, Compiler
from training.services.registry import DEFAULT, ServiceName
from training.staging.sources.request import Data, ModelOverrides, Task

BucketLengths = Annotated[tuple[Annotated[int, Field(ge=1, le=131_072)], ...], Field(strict=False, min_length=1)]
Budget = Annotated[float, Field(gt=0.0, le=1e12)]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]
LoggedModels = Annotated[
    Literal["best", "winner", "each", "none"],
    # The field was a boolean before.
    BeforeValidator(lambda value: {"true": "each", "false": "none"}.get(str(value).lower(), value)),
]

BUDGET_FIELDS = ("max_usd", "max_billable_seconds", "min_run_seconds")
"""Fields of a group's budget. They are the same for all arms, and may change when a group is resumed."""


class PushToHub(Frozen):
    """Repository of the Hugging Face Hub that gets the trained model. The token is never stored or logged."""

    repository: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$")]
    """Repository, as `owner/name`. It is created if it does not exist."""
    private: bool = True
    """Create the repository as private, and refuse to push to a public one."""
    revision: Name | None = None
    """Branch to push to. None means `main`."""
    commit_message: Name | None = None
    """Commit message."""
    token_variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] = "HF_TOKEN"
    """Environment variable of the command that holds the token. No job gets it."""
    token_secret: Annotated[str, Field(pattern=r"^[A-Za-z0-9/_+=.@:-]{1,512}$")] | None = None
    """Secret of AWS Secrets Manager that holds the token instead."""


class ExperimentFields(Frozen):
    """All fields of an experiment."""

    description: str = ""
    """Purpose of the experiment, in a sentence or two."""
    task: Task = "classification"
    """Task to train."""
    script: Script | None = None
    """Training script to run instead of a task."""
    model: Name | None = None
    """Model: a name on the Hub, a folder, or `package:NAME` for a packaged model. Exactly one of `model` and
    `model_type` is required."""
    model_revision: Name | None = None
    """Branch, tag or commit of a model on the Hub. None means `main`."""
    weights: Literal["pretrained", "random"] | None = None
    """Initial weights. None means `pretrained` for a `model` and `random` for a `model_type`."""
    model_type: Name | None = None
    """Architecture in Transformers to train from scratch, such as `gpt2`."""
    model_overrides: ModelOverrides = Field(default_factory=dict)
    """Fields of the model configuration to change, such as `n_layer`. Requires random weights."""
    tokenizer: Name | None = None
    """Tokenizer, named like a model. None means that of the model. Requires random weights."""
    data: Data | None = None
    """Training and validation data, from exactly one of `train`, `hub` and `builtin`."""
    max_length: Annotated[int, Field(ge=8, le=131_072)] = 128
    """Longest sequence in tokens, special tokens included. Longer sequences are cut."""

    doc_stride: Annotated[int, Field(ge=0, le=131_072)] = 128
    """Question answering: tokens of the context that two neighbouring windows share. Must be below `max_length`."""
    n_best_answers: Annotated[int, Field(ge=1, le=1_000)] = 20
    """Question answering: most likely starts and ends per window that are combined into answers."""
    max_answer_length: Annotated[int, Field(ge=1, le=131_072)] = 30
    """Question answering: longest answer, in tokens."""

    packing: bool | None = None
    """Causal language modelling: fill blocks of `max_length` with the tokens of all texts (true, None), or keep one row
    per text (false)."""

    base_learning_rate: Annotated[float, Field(gt=0.0)] = 3e-5
    """Peak learning rate for `base_batch_size`, scaled to the global batch size. At most 10 for a task."""
    base_batch_size: BatchSize = 32
    """Global batch size, in samples, that `base_learning_rate` was chosen for."""
    learning_rate_scaling: ScalingRule = "linear"
    """Rule that scales the learning rate from `base_batch_size` to the global batch size."""
    learning_rate_multiplier: Annotated[float, Field(gt=0.0, le=1024.0)] = 1.0
    """Factor applied to the scaled learning rate. A sweep can search it."""
    max_learning_rate: Annotated[float, Field(gt=0.0)] | None = None
    """Upper limit of the peak learning rate after scaling. At most 10 for a task."""
    batch_size: BatchSize = 32
    """Training batch size per device, in samples."""
    eval_batch_size: BatchSize | None = None
    """Evaluation batch size per device, in samples. None means the experiment's own `batch_size`, for every arm."""
    drop_last: bool = False
    """Leave out the rows at the end of an epoch that do not fill a batch on every device."""
    gradient_accumulation_steps: Annotated[int, Field(ge=1, le=65_536)] = 1
    """Batches per device that make one optimizer step."""
    epochs: Annotated[float, Field(gt=0.0, le=100_000.0)] | None = None
    """Passes over the training rows. Exactly one of `epochs` and `max_steps` is required."""
    max_steps: Count | None = None
    """Optimizer steps."""
    warmup_samples: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0
    """Warm-up in samples, over which the learning rate rises from 0."""
    lr_scheduler: Literal["linear", "cosine", "constant"] = "linear"
    """Shape of the learning rate after the warm-up."""
    adam_beta1: Beta = 0.9
    """Decay rate of Adam's first moment at `base_batch_size`, per step."""
    adam_beta2: Beta = 0.999
    """Decay rate of Adam's second moment at `base_batch_size`, per step."""
    adam_epsilon: Annotated[float, Field(gt=0.0, le=1.0)] = 1e-8
    """Epsilon of Adam at `base_batch_size`, in units of the gradient."""
    weight_decay: Annotated[float, Field(ge=0.0, le=10.0)] = 0.0
    """Decoupled weight decay, multiplied by the learning rate."""
    max_grad_norm: Annotated[float, Field(ge=0.0, le=1e6)] = 1.0
    """Largest norm of the gradient. Larger gradients are clipped; 0 disables clipping."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 42
    """Seed of new weights, dropout and the data order. Each repeat adds 1."""

    precision: Literal["auto", "fp32", "bf16", "fp16", "fp8"] = "auto"
    """Number format of the computation. `auto` takes bf16 where the hardware supports it natively, else fp16 on a GPU
    and fp32 on a CPU. `fp8` is bf16 with FP8 in the linear layers, in training only; it needs `torchao`, a GPU of
    compute capability 8.9 or higher, and `compiler: inductor` to be fast."""
    padding: Literal["auto", "longest", "buckets", "max_length", "none"] = "auto"
    """Pad each batch to its longest row, to the next bucket length, or to `max_length`. `auto` is `buckets` with
    inductor on a GPU and with `trcomp`, otherwise `longest`, rounded up to a multiple of 8 on a GPU. `none` computes no
    padding; docs/measuring.md names the models and conditions."""
    bucket_lengths: BucketLengths | None = None
    """Bucket lengths in tokens, ascending. None chooses them from the data."""
    length_grouping: bool = True
    """Batch rows of similar length together. Has no effect with `padding: max_length`."""
    attention: Literal["auto", "blockwise", "sdpa", "eager", "flash_attention_2"] = "auto"
    """Attention implementation. `auto` takes the default of transformers, which is `sdpa` for most models. On a CPU,
    for rows of up to 1,024 tokens, it takes `blockwise` for common models, else `eager`. `blockwise` is our own, for
    training on a CPU, and computes in parts that fit in the CPU's caches; evaluations then use `eager`."""
    kernels: Literal["torch", "liger"] = "torch"
    """Kernels of norms, rotary embeddings, MLPs and the loss of language models: those of PyTorch, or Liger's, for
    decoders such as Llama, Mistral and Qwen. `liger` needs an NVIDIA GPU and the package `liger-kernel`."""
    optimizer: Literal["auto", "adamw"] = "auto"
    """AdamW: `auto` takes the fused kernel where torch has one, and on a CPU leaves out the embeddings of tokens that
    do not occur (equal up to rounding); `adamw` uses one kernel per operation, and trains all."""
    dataloader_workers: Annotated[int, Field(ge=0, le=256)] | None = None
    """Processes per device that build batches. None means 2 on a GPU and 0 on a CPU."""
    compiler: Compiler = "none"
    """Compiler: `inductor` is `torch.compile`, `trcomp` SageMaker Training Compiler, and `trcomp-off` its image with
    the compiler off."""
    compiler_debug: bool = False
    """Write debugging information of compiler `trcomp` to the job's output. Slows training down."""
    compile_scope: Literal["layers", "model"] = "layers"
    """Inductor: compile one program for the repeated `layers`, or the whole `model`, which takes longer to compile."""
    compile_mode: CompileMode = "default"
    """Inductor: mode of `torch.compile`. `reduce-overhead` and `max-autotune` use CUDA graphs on a GPU."""
    compile_dynamic: bool | None = None
    """Inductor: one program for all lengths (true), or one per length (false). None means one for all if padding is
    `longest`, or on a CPU with several bucket lengths."""
    sharding: Literal["none", "fsdp2"] = "none"
    """Several devices: each holds the whole model (`none`: DDP), or a part of its weights, gradients and optimizer
    states (`fsdp2`: PyTorch's `fully_shard`), which needs less memory and more communication. Needs torch 2.6."""

    logging_steps: Count = 10
    """Optimizer steps between two logged training losses."""
    eval_strategy: Literal["end", "epoch", "steps", "samples"] = "epoch"
    """Evaluate after every epoch, every `eval_steps`, or every `eval_samples`, and at the end in any case."""
    eval_steps: Count | None = None
    """Optimizer steps between two evaluations."""
    eval_samples: Count | None = None
    """Samples between two evaluations, the same for every batch size."""
    save_strategy: Literal["none", "epoch", "steps"] = "none"
    """Write no checkpoints, one after every epoch, or one every `save_steps`."""
    save_steps: Count | None = None
    """Optimizer steps between two checkpoints."""
    save_total_limit: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of checkpoints to keep. The best one is always kept."""
    best_metric: QualityMetric | None = None
    """Evaluation metric that selects the model to keep; None keeps the last one. Requires a checkpoint after every
    evaluation."""
    save_model: bool = True
    """Keep the trained model as the artifact of the job."""
    log_model: LoggedModels = "best"
    """Models to log to MLflow when the group closes: that of the `best` repeat of each arm, of the `winner`, of `each`
    job, or `none`. Artifacts on this machine are then deleted, except a script's; with `none` all stay."""
    push_to_hub: PushToHub | None = None
    """Push the trained model to the Hugging Face Hub after `train`. With `--wait false`, `attach` or the same command
    pushes it."""
    steady_after_steps: Annotated[int, Field(ge=1, le=1_000_000)] = 3
    """Optimizer steps that count as warm-up and are left out of the steady throughput."""
    target: Target | None = None
    """Quality that an arm must reach. Its cost is measured up to that point."""

    max_usd: Budget | None = None
    """Budget in US dollars for all jobs of a command: see docs/operations.md. Needs a known price."""
    max_billable_seconds: Budget | None = None
    """The same budget in billable instance seconds."""
    min_run_seconds: Annotated[int, Field(ge=1, le=2_419_200)] | None = None
    """Shortest time limit in seconds to which a budget may lower a job's. None means 60, and then a fifth more than the
    longest job of the arm."""

    service: ServiceName = DEFAULT
    """Service that runs the jobs: this machine or Amazon SageMaker."""
    machine: Machine = Machine()
    """Instances and resources of a job."""
    aws: Aws = Aws()
    """AWS account, network and keys. The configuration file of SageMaker's SDK supplies what is not set."""
    compare: Compare = Compare()
    """Arms and repeats of a comparison."""
    probe: Probe | None = None
    """Length of the training in the verb `probe`. Other verbs train to the end."""
    calibration: Calibration | None = None
    """Measure a few steps of several batch sizes instead of training."""
    sweep: Sweep = Sweep()
    """Search space, objective and limits of the verb `sweep`. Each compiler has its own study."""
    published: Published | None = None
    """Published figures of this recipe. Reports show them beside the measured ones."""

    @property
    def first_weights(self) -> Literal["pretrained", "random"]:
        """Initial weights, with None resolved."""
        return self.weights or ("random" if self.model_type else "pretrained")

    @property
    def global_batch_size(self) -> int:
        """Samples per optimizer step, over all devices and instances."""
        processes = self.machine.devices * self.machine.instance_count
        return self.batch_size * processes * self.gradient_accumulation_steps

    @property
    def evaluation(self) -> tuple[str, int | None]:
        """Evaluation strategy of the job, and the optimizer steps between two evaluations."""
        if self.eval_strategy == "samples" and self.eval_samples is not None:
            return "steps", max(1, round(self.eval_samples / self.global_batch_size))
        return self.eval_strategy, self.eval_steps

    @property
    def optimiser(self) -> Optimiser:
        """Settings of the optimizer at the global batch size."""
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
