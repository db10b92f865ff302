"""Push the trained model to the Hugging Face Hub.

Open `hub.py` first.
"""
