"""Two processes train one model with DistributedDataParallel."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
wrapped = DistributedDataParallel(model)
for _ in range(12):
    wrapped(torch.randn(4, 10)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
