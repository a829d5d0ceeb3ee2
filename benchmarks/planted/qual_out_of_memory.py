"""A launch that takes all memory of its device, between two that take little."""

import torch

from pytest_kernelqual import Case, Config, kernel_spec

BLOCK_BYTES = 1 << 33


def taken(x, how):
    if how == "all":
        if x.device.type == "cpu":
            raise torch.OutOfMemoryError("out of memory: not tried on a CPU")
        held = []
        while True:
            held.append(torch.empty(BLOCK_BYTES, dtype=torch.int8, device=x.device))
    return x + 1


@kernel_spec(candidates=[Config(TAKE=how) for how in ("little", "all", "again")], cases=[Case(n=1024)])
def out_of_memory(case, seeded):
    """Launch, taking as much memory as the config says."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: taken(x, config["TAKE"] if config else "little")
