"""What of a service's state on this machine lies where, who uses it, and how it goes."""
