"""What the fingerprints say about a pair, on a device or for a target that is not there."""

from contextlib import ExitStack

import torch
from pairs import Config, Pair, Shape, Tensors
from triton.backends.compiler import GPUTarget

from pytest_kernelqual.judge.order import Order, OrderedLaunch, compare_orders
from pytest_kernelqual.launch import dry_run, fake_driver
from pytest_kernelqual.on_device.order import order_of_source


def verdict(pair: Pair, shape: Shape, target: GPUTarget | None = None) -> Order:
    """Compare the orders of the pair's two configs; without a target, on the device that is there."""
    return compare_orders(*(launches(pair, shape, config, target) for config in (pair.a, pair.b)))


def launches(pair: Pair, shape: Shape, config: Config, target: GPUTarget | None = None) -> list[OrderedLaunch]:
    """Return what one config would launch, nothing being launched."""
    inputs = pair.inputs(shape)
    device = "cpu" if target else "cuda"
    tensors: Tensors = {
        name: torch.empty(size, dtype=dtype, device=device)
        for name, (size, dtype) in {**inputs.drawn, **inputs.results}.items()
    }
    with ExitStack() as block:
        if target:
            block.enter_context(fake_driver(target))
        run = block.enter_context(dry_run())
        pair.launch(tensors, shape, config)
    return [
        OrderedLaunch(
            launch.jit.fn.__name__,
            order_of_source(launch.specialisation.source, launch.specialisation.target, launch.specialisation.options),
            launch.grid,
            tuple(launch.arguments.scalars.items()),
        )
        for launch in run.launches
    ]
