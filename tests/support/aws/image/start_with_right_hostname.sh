#!/usr/bin/env bash
# The image's entry point, reduced to what matters here: it runs `train` as a child, with no trap and without exec.
# Source: aws/deep-learning-containers (2026-08-21), scripts/docker/pytorch/start_with_right_hostname.sh.
if [[ "$1" = "train" ]]; then
    train
else
    eval "$@"
fi
