"""The cross-entropy of language models on a CPU, computed for a few tokens at a time.

The logits are the largest tensors of a training step: tokens x vocabulary. transformers and PyTorch read or write
them in memory eight times. Here a few tokens' logits stay in the CPU's cache for the loss and for its gradient.
"""

from typing import Any, Optional, Tuple

import torch

TOKENS_AT_A_TIME = 16
"""With a vocabulary of 50,000, their logits take 3 MB in single precision."""
IGNORED = -100


def use_token_loss(model: Any) -> bool:
    """Make a language model use `causal_lm_loss` in training.

    Return False if it keeps its loss, because that is another one or cannot be set (transformers before 4.49).
    """
    try:
        from transformers.loss.loss_utils import ForCausalLMLoss
    except ImportError:
        return False
    can_set = getattr(getattr(type(model), "loss_function", None), "fset", None) is not None
    if not can_set or model.loss_function is not ForCausalLMLoss:
        return False

    def loss_function(logits: Any, labels: Any, vocab_size: int, **more: Any) -> Any:
        # Evaluations use transformers' own loss, so that they equal what other tools compute.
        loss = causal_lm_loss if torch.is_grad_enabled() else ForCausalLMLoss
        return loss(logits, labels, vocab_size, **more)

    model.loss_function = loss_function
    return True


def causal_lm_loss(
    logits: Any,
    labels: Any,
    vocab_size: int,
    num_items_in_batch: Optional[Any] = None,
    ignore_index: int = IGNORED,
    shift_labels: Optional[Any] = None,
    **more: Any,
) -> Any:
    """Return the summed loss of the tokens divided by `num_items_in_batch`, or by the number of tokens that count.

    Takes what transformers' `ForCausalLMLoss` takes, and returns the same up to rounding: `logits` is rows x tokens x
    vocabulary, `labels` rows x tokens.
    """
    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    targets = shift_labels.reshape(-1)
    targets = targets.masked_fill(targets == ignore_index, IGNORED)
    count = (targets != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
    return _TokenLoss.apply(logits.reshape(-1, vocab_size), targets, float(count))


class _TokenLoss(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, logits: Any, targets: Any, count: float) -> Any:
        gradient = torch.empty_like(logits)
        loss = torch.zeros((), dtype=torch.float64)
        for start in range(0, len(targets), TOKENS_AT_A_TIME):
            part = slice(start, start + TOKENS_AT_A_TIME)
            gradient[part], losses = _gradient_and_losses(logits[part].float(), targets[part], count)
            loss += losses.sum(dtype=torch.float64)
        context.save_for_backward(gradient)
        return (loss / count).float()

    @staticmethod
    def backward(context: Any, loss_gradient: Any) -> Tuple[Any, None, None]:
        (gradient,) = context.saved_tensors
        return (gradient if loss_gradient == 1 else gradient * loss_gradient.to(gradient.dtype)), None, None


def _gradient_and_losses(logits: Any, targets: Any, count: float) -> Tuple[Any, Any]:
    """Return the gradient of the mean loss, tokens x vocabulary, and each token's loss."""
    weights = (targets != IGNORED).float().unsqueeze(1)
    # Any other negative label is an error, as in PyTorch: `gather` refuses it.
    token_ids = targets.masked_fill(targets == IGNORED, 0).unsqueeze(1)
    log_probabilities = torch.log_softmax(logits, dim=1)
    losses = -log_probabilities.gather(1, token_ids) * weights
    gradient = log_probabilities.exp_()
    gradient.scatter_add_(1, token_ids, -torch.ones_like(weights))
    # Without any token that counts, the loss is not a number and the gradient is zero, as in PyTorch.
    return gradient.mul_(weights / (count or 1.0)), losses
