"""One job: what runs, where it runs, and what it was given."""
