"""Print what Keras 3 prints of `fit` and `evaluate` on a terminal, by the definition of its `Progbar`."""

EPOCHS, BATCHES = 2, 50


def show(batch: int, total: int, values: dict[str, float]) -> None:
    """Print a state of the bar over the one before."""
    done = 20 * batch // total
    bar = f"\x1b[32m{'━' * done}\x1b[0m\x1b[37m{'━' * (20 - done)}\x1b[0m"
    text = f"\x1b[1m{batch:{len(str(total))}d}/{total}\x1b[0m {bar} \x1b[1m0s\x1b[0m 2ms/step"
    end = "\n" if batch == total else ""
    print("\b" * 90 + "\r" + text + "".join(f" - {name}: {value:.4f}" for name, value in values.items()), end=end)


for epoch in range(EPOCHS):
    print(f"Epoch {epoch + 1}/{EPOCHS}")
    for batch in range(1, BATCHES):
        show(batch, BATCHES, {"accuracy": 0.25, "loss": 1 / (BATCHES * epoch + batch)})
    values = {"accuracy": 0.25, "loss": 1 / (BATCHES * (epoch + 1)), "val_accuracy": 0.5 + epoch / 4, "val_loss": 0.5}
    show(BATCHES, BATCHES, values)
for batch in range(1, 6):
    show(batch, 5, {"accuracy": 0.125, "loss": 0.25})
