"""A trained model in use: what answers for it, the server, and where endpoints live."""
