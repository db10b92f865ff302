"""Train a small network, and sleep after every step for a share of the step's time: a setting of known extra cost."""

import argparse
import time

STARTED = time.perf_counter()

import torch  # noqa: E402

ROWS, COLUMNS, CLASSES, STEPS, BATCH_SIZE = 4_000, 256, 8, 120, 64


def main() -> None:
    """Train, and print what the experiment reads."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--slower", type=float, help="share of the time by which everything takes longer")
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    torch.manual_seed(7)
    centres = torch.randn(CLASSES, COLUMNS)
    torch.manual_seed(arguments.seed)
    labels = torch.randint(CLASSES, (ROWS,))
    rows = centres[labels] + 4 * torch.randn(ROWS, COLUMNS)
    layers = [torch.nn.Linear(COLUMNS, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(1024, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    time.sleep(arguments.slower * (time.perf_counter() - STARTED))
    for step in range(STEPS):
        began = time.perf_counter()
        batch = torch.arange(step * BATCH_SIZE, (step + 1) * BATCH_SIZE) % (ROWS // 2)
        loss = torch.nn.functional.cross_entropy(model(rows[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(arguments.slower * (time.perf_counter() - began))
    with torch.no_grad():
        accuracy = (model(rows[ROWS // 2 :]).argmax(1) == labels[ROWS // 2 :]).float().mean()
    print(f"samples={STEPS * BATCH_SIZE}")
    print(f"eval_accuracy={accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
