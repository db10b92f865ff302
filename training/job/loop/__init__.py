"""The training loop: Hugging Face's Trainer with our measurements, samplers and compile phase.

Open `job_trainer.py` first.
"""
