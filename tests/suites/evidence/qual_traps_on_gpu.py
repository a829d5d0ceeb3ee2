"""Traps that only a device with memory of its own shows: values that reach host code by a copy."""

import traps

from pytest_kernelqual import Case, grid, kernel_spec

CASES = [Case(n=1000)]
STAGES = grid(num_stages=[1, 2], num_warps=[2, 4])

BINARY, ORDER, BYTES = "identical_binary", "identical_order", "identical_bytes"
KNOWN = {
    "num_stages=1,num_warps=2": ORDER,
    "num_stages=1,num_warps=4": BINARY,
    "num_stages=2,num_warps=2": f"{ORDER} as num_stages=1,num_warps=2",
    "num_stages=2,num_warps=4": BINARY,
}
NOT_KNOWN = dict.fromkeys(KNOWN, BYTES)

EXPECTED = {
    "copied_to_host": NOT_KNOWN,
    "copied_into_host_memory": NOT_KNOWN,
    "listed": NOT_KNOWN,
    "printed": NOT_KNOWN,
    "host_table": KNOWN,
    "host_scalar": KNOWN,
    "on_another_stream": KNOWN,
    "twice_backward": KNOWN,
}


def x_of(case, seeded, **more):
    return seeded.normal((case.n,), dtype="float32", **more)


def known_by(launch):
    """Declare a spec of the kernel `scaled`, named as its production code."""

    def builder(case, seeded):
        x = x_of(case, seeded)
        return lambda: launch(x)

    builder.__name__ = launch.__name__
    return kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)(builder)


copied_to_host = known_by(traps.copied_to_host)
copied_into_host_memory = known_by(traps.copied_into_host_memory)
listed = known_by(traps.listed)
printed = known_by(traps.printed)
host_table = known_by(traps.host_table)
host_scalar = known_by(traps.host_scalar)
on_another_stream = known_by(traps.on_another_stream)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def twice_backward(case, seeded):
    x = x_of(case, seeded, requires_grad=True)
    return lambda: traps.differentiate(traps.Scale, x) + traps.differentiate(traps.Scale, x)
