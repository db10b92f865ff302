"""Tables become verdicts, plots, a page and a terminal summary."""
