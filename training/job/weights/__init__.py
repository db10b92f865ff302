"""Load and save the model and tokenizer files.

Open `pretrained.py` first. Pushing a model to the Hub belongs in `publishing`.
"""
