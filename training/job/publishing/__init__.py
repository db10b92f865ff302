"""Push the trained model to the Hugging Face Hub.

Saving the model locally belongs in `weights`. Open `hub.py` first.
"""
