"""Metrics of a finished training under their MLflow names. Values that could not be measured are absent. Pure."""

from typing import Any, Dict, Mapping, Optional

from data.padding import Work
from measuring.meter import Steady

FLOPS_PER_PARAMETER_AND_TOKEN = 6
"""2 forward and 4 backward, without attention: Kaplan et al. 2020, https://arxiv.org/abs/2001.08361, section 2.1."""


def throughput_metrics(
    steady: Optional[Steady],
    steady_work: Work,
    parameters: int,
    peak_flops_per_second: Optional[float],
    attention_flops_per_pair: Optional[int] = None,
) -> Dict[str, float]:
    """Return `throughput/*`; empty without `steady`.

    `steady_work` and `peak_flops_per_second` cover all devices. `parameters` is the number of parameters that take part
    in matrix products. Utilisation is given with the products of attention and without them, if they can be counted.
    """
    if steady is None:
        return {}
    p25, p50, p75 = steady.step_seconds
    tokens_per_second = steady_work.tokens / steady.seconds
    metrics: Dict[str, float] = {
        "throughput/steady_samples_per_second": steady_work.samples / steady.seconds,
        "throughput/steady_tokens_per_second": tokens_per_second,
        "throughput/steady_steps": steady.steps,
        "throughput/steady_step_seconds_p25": p25,
        "throughput/steady_step_seconds_p50": p50,
        "throughput/steady_step_seconds_p75": p75,
    }
    flops_per_second = FLOPS_PER_PARAMETER_AND_TOKEN * parameters * tokens_per_second
    metrics["throughput/model_flops_per_second"] = flops_per_second
    if attention_flops_per_pair is not None:
        own = attention_flops_per_pair * steady_work.pairs / steady.seconds
        metrics["throughput/model_flops_with_attention_per_second"] = flops_per_second + own
    if peak_flops_per_second is not None:
        for name in ("mfu", "mfu_with_attention"):
            flops = metrics.get(f"throughput/{name.replace('mfu', 'model_flops')}_per_second")
            if flops is not None:
                metrics[f"throughput/{name}"] = flops / peak_flops_per_second
    return metrics


def attention_flops_per_pair(model: Any) -> Optional[int]:
    """Return the FLOP of attention's two products for each pair of tokens of a row, over all layers.

    Each product takes 2 FLOP per pair and hidden unit, and a training three times a forward pass: 12 FLOP per layer and
    hidden unit, as for PaLM's utilisation (Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311, appendix B: 12 L H
    Q T per token of a row of T). Like there, a causal mask does not halve the count. None if the model's configuration
    does not state its layers and hidden units.
    """
    layers, hidden = (getattr(model.config, name, None) for name in ("num_hidden_layers", "hidden_size"))
    return 12 * layers * hidden if layers and hidden else None


def multiplied_parameters(model: Any) -> int:
    """Return the number of parameters that every token is multiplied with: all except the embeddings.

    Embeddings are looked up, not multiplied. A head that shares its weights with the embeddings does multiply them:
    with GPT-2's vocabulary, that is a third of the work. Counted as for PaLM's utilisation: Chowdhery et al. 2022,
    https://arxiv.org/abs/2204.02311, appendix B. `attention_flops_per_pair` is its other term.
    """
    parameters = int(model.num_parameters(exclude_embeddings=True))
    weight: Any = getattr(model.get_output_embeddings(), "weight", None)
    if weight is not None and weight is model.get_input_embeddings().weight:
        parameters += weight.numel()
    return parameters + _repeated_parameters(model)


def _repeated_parameters(model: Any) -> int:
    """Return the parameters that shared layers add when they run again: ALBERT's layers share one set of weights."""
    groups = getattr(model.config, "num_hidden_groups", None)
    if not groups:
        return 0
    shared = sum(weight.numel() for name, weight in model.named_parameters() if "layer_groups" in name)
    return int(shared * model.config.num_hidden_layers // groups - shared)


def time_metrics(phase_seconds: Mapping[str, float]) -> Dict[str, float]:
    """Return `time/*_seconds`."""
    return {f"time/{phase}_seconds": seconds for phase, seconds in phase_seconds.items()}


def padding_metrics(work: Work) -> Dict[str, float]:
    """Return the share of computed positions that are not padding."""
    return {"padding/efficiency": work.tokens / work.positions} if work.positions else {}


def trainer_metrics(logged: Mapping[str, Any]) -> Dict[str, float]:
    """Return the numbers that Trainer logged, under Trainer's names."""
    return {name: float(value) for name, value in logged.items() if isinstance(value, (int, float))}
