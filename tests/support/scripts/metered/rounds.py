"""Train in one of several ways, and print how many steps, batches and samples that was: `python rounds.py WAY`."""

import sys

import torch
from torch import nn


class Twice(torch.optim.SGD):
    """An optimizer whose step is a round of two of its parent's."""

    def step(self, closure=None):
        super().step()
        return super().step()


def batches(count, size=4):
    return [torch.randn(size, 10) for _ in range(count)]


def model():
    return nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 1))


def train(net, optimizers, data, accumulation=1):
    for number, batch in enumerate(data, 1):
        net(batch).sum().backward()
        if number % accumulation == 0:
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()


def plain(net):
    train(net, [torch.optim.AdamW(net.parameters())], batches(30) + batches(2, 3))
    return 32, 32, 30 * 4 + 2 * 3


def accumulated(net):
    train(net, [torch.optim.AdamW(net.parameters())], batches(24), accumulation=3)
    return 8, 24, 96


def evaluated(net):
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(3):
        train(net, [optimizer], batches(5))
        net.eval()
        with torch.no_grad():
            for batch in batches(7):
                net(batch)
        net.train()
    return 15, 15, 60


def groups(net):
    train(
        net, [torch.optim.SGD(net[0].parameters(), lr=0.1), torch.optim.SGD(net[2].parameters(), lr=0.1)], batches(12)
    )
    return 12, 12, 48


def parents_step(net):
    train(net, [Twice(net.parameters(), lr=0.1)], batches(12))
    return 12, 12, 48


def skipped(net):
    scaler, optimizer = torch.amp.GradScaler("cpu", init_scale=2.0), torch.optim.SGD(net.parameters(), lr=0.1)
    for number, batch in enumerate(batches(12)):
        loss = net(batch).sum() * (float("inf") if number in (3, 7) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return 10, 12, 48


def compiled(net):
    fast = torch.compile(net, backend="eager")
    train(fast, [torch.optim.SGD(net.parameters(), lr=0.1)], batches(12))
    return 12, 12, 48


def compiled_in_place(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.compile(backend="eager")
    train(net, [optimizer], batches(12))
    return 12, 12, 48


def gan(net):
    """Two models and two optimizers: the samples of a step are not countable."""
    critic = model()
    optimizers = [torch.optim.Adam(each.parameters()) for each in (critic, net)]
    for _ in range(12):
        (critic(torch.randn(4, 10)) - critic(torch.randn(4, 10))).sum().backward()
        optimizers[0].step()
        (net(torch.randn(4, 10))).sum().backward()
        optimizers[1].step()
    return 12, 36, None


def sequence_first(net):
    """The first dimension is the sequence."""
    net = nn.LSTM(10, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(12):
        net(torch.randn(7, 4, 10))[0].sum().backward()
        optimizer.step()
    return 12, 12, None


def by_hand(net):
    """The weights change without an optimizer."""
    for batch in batches(12):
        net(batch).sum().backward()
        with torch.no_grad():
            for each in net.parameters():
                each -= 0.1 * each.grad
                each.grad = None
    return 0, 0, None


def several(net):
    """A search with three trainings, each with a model of its own."""
    for _ in range(3):
        net = model()
        train(net, [torch.optim.SGD(net.parameters(), lr=0.1)], batches(5))
    return 15, 15, 60


def forked(net):
    """A child of this process trains on with the same model and optimizer."""
    import os

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    train(net, [optimizer], batches(5))
    child = os.fork()
    train(net, [optimizer], batches(3))
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return 11, 11, 44


def killed(net):
    import os
    import signal

    train(net, [torch.optim.SGD(net.parameters(), lr=0.1)], batches(15))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    torch.manual_seed(0)
    # One write: the meter may write in between.
    print(" ".join(map(str, ("expected", *globals()[sys.argv[1]](model())))))
