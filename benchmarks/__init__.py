"""What is claimed about speed is measured here: each benchmark alternates the sides it compares in one run."""
