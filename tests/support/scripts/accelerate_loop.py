"""Train a small classifier in a plain loop with accelerate, as its examples do: is a number above 0?"""

import argparse
import logging

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm

logger = get_logger(__name__)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--num_train_epochs", type=int, default=2)
    parser.add_argument("--per_device_train_batch_size", type=int)
    parser.add_argument("--learning_rate", type=float)
    args = parser.parse_args()
    accelerator = Accelerator(cpu=args.cpu)
    logging.basicConfig(format="%(asctime)s - %(levelname)s - %(name)s - %(message)s", level=logging.INFO)

    numbers = torch.randn(96, 1)
    data = TensorDataset(numbers, (numbers[:, 0] > 0).long())
    model = torch.nn.Linear(1, 2)
    model, optimizer, batches = accelerator.prepare(
        model,
        torch.optim.AdamW(model.parameters(), lr=args.learning_rate),
        DataLoader(data, shuffle=True, batch_size=args.per_device_train_batch_size),
    )
    steps = args.num_train_epochs * len(batches)
    total = args.per_device_train_batch_size * accelerator.num_processes
    logger.info("***** Running training *****")
    logger.info(f"  Num examples = {len(data)}")
    logger.info(f"  Num Epochs = {args.num_train_epochs}")
    logger.info(f"  Total train batch size (w. parallel, distributed & accumulation) = {total}")
    logger.info(f"  Total optimization steps = {steps}")
    # Steps of a real training take long enough that the bar shows each.
    bar = tqdm(range(steps), disable=not accelerator.is_local_main_process, mininterval=0)
    for epoch in range(args.num_train_epochs):
        for inputs, labels in batches:
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            bar.update(1)
        with torch.no_grad():
            hits = [(model(inputs).argmax(-1) == labels).float() for inputs, labels in batches]
        logger.info(f"epoch {epoch}: {{'accuracy': {torch.cat(hits).mean().item()}}}")


if __name__ == "__main__":
    main()
