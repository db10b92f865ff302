"""`jobs prune`: what of the state on this machine may go, shown, asked for and deleted."""
