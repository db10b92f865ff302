"""Our defaults on a CPU, compared with fixed settings, a well-tuned Trainer and the recipe, and with less CPU time.

Run `python -m benchmarks` with `auto`, `tuned_trainer` or `neighbours`.
"""
