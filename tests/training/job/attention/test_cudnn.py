"""Attention on a GPU leaves out cuDNN, which plans every new shape."""

from __future__ import annotations

import torch

from attention.cudnn import disable_cudnn_attention


def test_cudnn_does_not_compute_attention() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        disable_cudnn_attention()
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.mem_efficient_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
