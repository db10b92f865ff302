"""Load a model and its weights, and save its tokenizer beside the trained model.

Open `pretrained.py` first.
"""
