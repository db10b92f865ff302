"""The training loop: Hugging Face's Trainer with our measuring, sampling and compile phase.

Open `job_trainer.py` first.
"""
