"""Code that is stored with a model: it runs wherever the model is served, and imports nothing of ours."""
