"""Usual programs with the libraries of the field, one a task, for comparisons of throughput and losses.

Each file has one function `trainer(model_folder, rows, training_arguments)`, which returns a Trainer that is ready to
train. None of them imports a package of ours.
"""
