"""Fit a line with Lightning: three epochs of eight steps of two batches, with an evaluation after each."""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Line(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        loss = ((self(batch[0]) - batch[1]) ** 2).mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor]) -> None:
        self.log("val_loss", ((self(batch[0]) - batch[1]) ** 2).mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


rows = torch.randn(64, 2)
data = TensorDataset(rows, rows.sum(dim=1, keepdim=True))
trainer = lightning.Trainer(max_epochs=3, accumulate_grad_batches=2, accelerator="cpu", log_every_n_steps=1)
trainer.fit(Line(), DataLoader(data, batch_size=4), DataLoader(data, batch_size=32))
print("expected", 24, 48, 192)
