"""The usual programs that people would write in place of a job of ours, one file for each.

Each has a function `trainer(model_folder, rows, training_arguments)`. `bench_tasks.py` runs them.
"""
