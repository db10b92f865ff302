"""Print what PyTorch Lightning prints: its progress bars, by the options of its `TQDMProgressBar`."""

import sys

from tqdm import tqdm

EPOCHS, BATCHES = 2, 50
FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"
OPTIONS = {"dynamic_ncols": True, "file": sys.stdout, "smoothing": 0, "bar_format": FORMAT, "mininterval": 0}

print("GPU available: False, used: False")
epoch_bar = tqdm(desc="Training", total=BATCHES, position=0, leave=True, **OPTIONS)
for epoch in range(EPOCHS):
    epoch_bar.reset(BATCHES)
    epoch_bar.set_description(f"Epoch {epoch}")
    for batch in range(1, BATCHES + 1):
        epoch_bar.n = batch
        epoch_bar.refresh()  # with the values of the batch before
        epoch_bar.set_postfix({"v_num": 0, "train_loss": f"{1 / (BATCHES * epoch + batch):.5f}"})
    for _ in tqdm(range(5), desc="Validation DataLoader 0", position=1, leave=False, **OPTIONS):
        pass
    epoch_bar.set_postfix({"v_num": 0, "train_loss": f"{1 / (BATCHES * (epoch + 1)):.5f}", "val_acc": 0.5 + epoch / 4})
epoch_bar.close()
print("`Trainer.fit` stopped: `max_epochs=2` reached.")
