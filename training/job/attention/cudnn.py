"""Scaled dot-product attention on a GPU without cuDNN."""

import torch


def disable_cudnn_attention() -> None:
    """Stop PyTorch from using cuDNN for scaled dot-product attention.

    cuDNN makes a plan for each new shape of batch, and batches padded to their longest row have many shapes: on an
    H200, a plan took 0.15 s, as long as several steps, while the first call of another kernel took 0.0006 s. After
    that, either can be faster up to 128 tokens; at 384, cuDNN is twice as fast (docs/decisions/0014).
    """
    # Earlier versions of torch do not use cuDNN for attention.
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        torch.backends.cuda.enable_cudnn_sdp(False)
