"""Where a job runs: each service creates, describes, stops and lists jobs, and hands out their logs."""
