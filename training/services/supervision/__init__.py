"""One job on this machine, as SageMaker's script mode runs it: its folder, container, processes and state."""
