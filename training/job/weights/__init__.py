"""Load a model and its weights, and save its tokenizer beside the trained one.

Open `pretrained.py` first. Pushing a model to the Hub belongs in `publishing`.
"""
