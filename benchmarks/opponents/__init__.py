"""The usual programs that people would write in place of a job of ours, one file for each.

Each has a function `trainer(model_folder, rows, training_arguments)`. `bench_tasks.py` runs them.
"""

PROGRAMS = {
    "adapters": "LoRA",
    "chat": "chat",
    "token_classification": "tags",
    "multi_label": "several labels",
    "regression": "numbers",
    "seq2seq": "T5",
    "embedding": "embeddings",
}
"""Program of this folder -> what the page of benchmarks calls what it trains."""
