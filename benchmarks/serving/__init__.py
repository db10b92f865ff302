"""What the benchmark of serving consists of: the direct loop and the clients, each a process of its own."""
