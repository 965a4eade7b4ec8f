"""Seeded instances of the kinds that planners meet: training steps, long random traces and perfectly packed arenas.

The planner's tests and benchmarks/planner.py place them.
"""

from __future__ import annotations

import random

from fuseline.plan.arena.types import Buffer, Instance


def training_step(layers: int, width: int = 1024, tokens: int = 512, seed: int = 0) -> Instance:
    """A transformer's forward and backward pass: about 21 buffers a layer.

    Activations live from the forward step that makes them to the backward step that reads them, so lifetimes nest;
    temporaries live for a few steps; each weight gradient lives until the optimiser has used it some steps later.
    """
    rng = random.Random(seed)
    row = 2 * tokens
    # (bytes, kept for the backward pass) of what one layer makes in order.
    made = (
        (row * width, True),  # norm
        (row * width, True),  # query
        (row * width // 4, True),  # key
        (row * width // 4, True),  # value
        (2 * tokens * tokens, False),  # scores
        (2 * tokens * tokens, True),  # probabilities
        (row * width, True),  # attention result
        (row * width, False),  # projection
        (row * width, True),  # residual
        (row * width * 4, False),  # gate
        (row * width * 4, True),  # up
        (row * width * 4, True),  # activation
        (row * width, False),  # down
    )
    steps = layers * len(made)
    buffers: list[Buffer] = []
    for layer in range(layers):
        for k, (size, kept) in enumerate(made):
            start = layer * len(made) + k
            end = 2 * steps - start if kept else start + rng.randint(2, 4)
            buffers.append(Buffer(f"f{layer}.{k}", start, end, size))
    for layer in reversed(range(layers)):
        for k in range(8):
            start = 2 * steps - (layer + 1) * len(made) + k
            size = rng.choice((row * width, row * width * 4, 2 * width * width, 2 * width * width // 4))
            buffers.append(Buffer(f"b{layer}.{k}", start, start + rng.choice((2, 3, 5, 20)), size))
    return Instance(tuple(buffers), f"training-step-{layers}")


def random_trace(count: int, seed: int = 0, unit: int = 256) -> Instance:
    """``count`` buffers of log-uniform sizes and lifetimes at uniform times, as a busy server's allocator sees them."""
    rng = random.Random(seed)
    steps = 2 * count
    buffers = []
    for i in range(count):
        start = rng.randrange(steps)
        life = int(2 ** rng.uniform(0, 10))
        buffers.append(Buffer(f"r{i}", start, start + life, unit * int(2 ** rng.uniform(0, 12))))
    return Instance(tuple(buffers), f"random-trace-{count}")


def packed(count: int, capacity: int = 2**20, seed: int = 0) -> Instance:
    """``count`` buffers that fill ``capacity`` bytes without any loss: a rectangle cut again and again.

    The least arena is known (``capacity``, the live sum at every moment), which makes these the hardest to fill.
    """
    rng = random.Random(seed)
    blocks = [(0, 4 * count, capacity)]
    finished: list[tuple[int, int, int]] = []
    while blocks and len(blocks) + len(finished) < count:
        k = rng.randrange(len(blocks))
        blocks[k], blocks[-1] = blocks[-1], blocks[k]
        lower, upper, size = blocks.pop()
        across_time = rng.random() < (0.5 if size > 1 else 1.0)
        if across_time and upper - lower > 1:
            at = rng.randrange(lower + 1, upper)
            blocks += [(lower, at, size), (at, upper, size)]
        elif size > 1:
            part = rng.randrange(1, size)
            blocks += [(lower, upper, part), (lower, upper, size - part)]
        else:
            finished.append((lower, upper, size))
    shapes = blocks + finished
    rng.shuffle(shapes)
    return Instance(tuple(Buffer(f"p{i}", *shape) for i, shape in enumerate(shapes)), f"packed-{count}")
