"""A loop of accelerate with accumulation, in as many processes as it is started with."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(0)
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, data = accelerator.prepare(model, optimizer, DataLoader(torch.randn(64, 10), batch_size=4))
for _ in range(2):
    for batch in data:
        with accelerator.accumulate(model):
            accelerator.backward(model(batch).sum())
            optimizer.step()
            optimizer.zero_grad()
print("expected", 16, 32, 128)
