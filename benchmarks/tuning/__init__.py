"""Our defaults on a CPU, compared with fixed settings and with a well-tuned Trainer.

Run `python -m benchmarks` with `auto` or `tuned_trainer`.
"""
