"""Our defaults on a CPU: next to fixed choices, a well-tuned Trainer and the recipe, and with less of the CPU.

Run `python -m benchmarks` with `auto`, `tuned_trainer`, `seeds`, `neighbours` or `first_result`.
"""
