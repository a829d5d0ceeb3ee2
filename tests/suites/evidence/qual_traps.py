"""Specs of which it is known which candidates are the fixed launch's program; `EXPECTED` says what each must get."""

import traps

from pytest_kernelqual import Case, grid, kernel_spec

CASES = [Case(n=1000)]
SPARE = grid(BLOCK=[64], SPARE=[1, 2])
STAGES = grid(num_stages=[1, 2])

BINARY, ORDER, BYTES = "identical_binary", "identical_order", "identical_bytes"
OTHER = "identical_bytes or mismatch"

# The launch takes the config: its host code may do with it what nobody sees, so that it is run all the same.
TAKING = {"BLOCK=64,SPARE=1": f"{BINARY} run", "BLOCK=64,SPARE=2": BYTES}

EXPECTED = {
    "stages": {
        "num_warps=4,num_stages=1": BINARY,
        "num_warps=4,num_stages=2": BINARY,
        "num_warps=8,num_stages=1": ORDER,
        "num_warps=8,num_stages=2": f"{ORDER} as num_warps=8,num_stages=1",
    },
    "grid_only": {
        "BLOCK=64,SPARE=1,num_stages=1": BINARY,
        "BLOCK=64,SPARE=1,num_stages=2": BINARY,
        "BLOCK=64,SPARE=2,num_stages=1": "incomplete_write",
        "BLOCK=64,SPARE=2,num_stages=2": "incomplete_write as BLOCK=64,SPARE=2,num_stages=1",
    },
    "more_programs": {"BLOCK=64,SPARE=1": BINARY, "BLOCK=64,SPARE=2": f"{BINARY} or {ORDER}"},
    "scalar_only": {"BLOCK=64,SPARE=1": BINARY, "BLOCK=64,SPARE=2": "mismatch"},
    "hooks": {
        "BLOCK=64,SPARE=1,num_warps=4,num_stages=1": BINARY,
        "BLOCK=64,SPARE=2,num_warps=4,num_stages=1": BINARY,
        "BLOCK=64,SPARE=3,num_warps=4,num_stages=1": BYTES,
        "BLOCK=64,SPARE=4,num_warps=4,num_stages=1": "mismatch",
    },
    "hook_values": {
        "BLOCK=64,SPARE=1,num_warps=4,num_stages=1": BINARY,
        "BLOCK=64,SPARE=2,num_warps=4,num_stages=1": "mismatch",
    },
    "limited": {"BLOCK=32": ORDER, "BLOCK=64": BINARY, "BLOCK=128": "compile_error"},
    "fusion": {"enable_fp_fusion=True": BINARY, "enable_fp_fusion=False": OTHER},
    "cooperative": {"launch_cooperative_grid=False": BINARY, "launch_cooperative_grid=True": ORDER},
    "sums": {"num_warps=4": BINARY, "num_warps=8": BYTES},
    "atomics": {"num_warps=4": BINARY, "num_warps=8": BYTES},
    "random": {"num_stages=1": BYTES, "num_stages=2": BYTES},
    "counted": {"num_stages=1": BYTES, "num_stages=2": BYTES},
    "counted_operator": {"num_stages=1": BYTES, "num_stages=2": BYTES},
    "positive": {"num_stages=1": BYTES, "num_stages=2": BYTES},
    "where_positive": {"num_stages=1": BYTES, "num_stages=2": BYTES},
    "reshaped": {"num_stages=1": BINARY, "num_stages=2": BINARY},
    "warmed_up": {"num_stages=1": BYTES, "num_stages=2": BYTES},
    "in_thread": {"num_stages=1": BYTES, "num_stages=2": BYTES},
    "operators": {"num_stages=1": BINARY, "num_stages=2": BINARY},
    "backward": {"num_stages=1": BINARY, "num_stages=2": BINARY},
    "counted_backward": {"num_stages=1": BYTES, "num_stages=2": BYTES},
    "alias": TAKING,
    "point": TAKING,
    "choose": TAKING,
    "touch": TAKING,
    "reserve": TAKING,
    "multiply": TAKING,
    "look_up": TAKING,
    "add_more": TAKING,
    "swap": TAKING,
    "leave": TAKING,
    "half": {"BLOCK=64,SPARE=1": f"{BINARY} run", "BLOCK=64,SPARE=2": "mismatch"},
}
UNFORESEEN = ("sums", "atomics")
"""Specs whose bytes on a GPU are not known beforehand."""
FRAGILE = {
    "sums": {"num_warps=8": ["tt.reduce axis 0: elements per thread 8 -> 4, warps along the axis 4 -> 8"]},
    "atomics": {
        "num_warps=8": ["counted_up: tt.atomic_rmw fadd: the order of atomics on floats is decided at run time"]
    },
    "fusion": {"enable_fp_fusion=False": ["options: enable_fp_fusion True -> none"]},
    "touch": {"BLOCK=64,SPARE=2": ["torch is asked for other operators, or kernels are given other buffers"]},
    "random": {
        "num_stages=1": ["what is launched cannot be told without running it"],
        "num_stages=2": ["what is launched cannot be told without running it"],
    },
}
"""Why some of those with equal bytes are fragile."""
DEAD = {name: ["num_stages"] for name in ("stages", "grid_only", "reshaped", "operators", "backward")}
"""Dead axes of the specs that have any."""


def x_of(case, seeded, **more):
    return seeded.normal((case.n,), dtype="float32", **more)


@kernel_spec(kernel=traps.scaled, candidates=grid(num_warps=[4, 8], num_stages=[1, 2]), cases=CASES)
def stages(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale(x)


@kernel_spec(
    kernel=traps.scaled, candidates=grid(BLOCK=[64], SPARE=[1, 2], num_stages=[1, 2]), cases=CASES, screen=True
)
def grid_only(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale(x, spare_grid=True)


@kernel_spec(kernel=traps.scaled, candidates=SPARE, cases=CASES)
def more_programs(case, seeded):
    x, more = x_of(case, seeded), seeded.seed % 2
    return lambda: traps.scale_with_more_programs(x, more)


@kernel_spec(kernel=traps.derived, candidates=SPARE, cases=CASES, screen=True, grid_independent=("SPARE",))
def scalar_only(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale_by_heuristics(x)


@kernel_spec(kernel=traps.hooked, cases=CASES, screen=True)
def hooks(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.accumulate(traps.hooked, x)


@kernel_spec(kernel=traps.hooked_by_value, cases=CASES, screen=True)
def hook_values(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.accumulate(traps.hooked_by_value, x)


@kernel_spec(kernel=traps.limited_scaled, candidates=grid(BLOCK=[32, 64, 128]), cases=CASES)
def limited(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale_limited(x)


@kernel_spec(
    kernel=traps.multiplied_and_added, candidates=grid(enable_fp_fusion=[True, False]), cases=CASES, screen=True
)
def fusion(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.fuse(x)


@kernel_spec(kernel=traps.scaled, candidates=grid(launch_cooperative_grid=[False, True]), cases=CASES)
def cooperative(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale(x)


@kernel_spec(kernel=traps.summed, candidates=grid(num_warps=[4, 8]), cases=CASES)
def sums(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.sum_up(traps.summed, x)


@kernel_spec(kernel=traps.counted_up, candidates=grid(num_warps=[4, 8]), cases=CASES)
def atomics(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.sum_up(traps.counted_up, x)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def random(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale_noisily(x)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def counted(case, seeded):
    x, count = x_of(case, seeded), seeded.full((), case.n)
    return lambda: traps.scale_counted(x, count)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def counted_operator(case, seeded):
    x, count = x_of(case, seeded), seeded.full((), case.n)
    return lambda: traps.scale_counted_operator(x, count)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def positive(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale_positive(x)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def where_positive(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale_where_positive(x)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def reshaped(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale_reshaped(x)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def warmed_up(case, seeded):
    x, warmed = x_of(case, seeded), []
    return lambda: traps.scale_after_warming_up(x, warmed)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def in_thread(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale_in_thread(x)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def operators(case, seeded):
    x = x_of(case, seeded)
    return lambda: traps.scale_by_operators(x)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def backward(case, seeded):
    x = x_of(case, seeded, requires_grad=True)
    return lambda: traps.differentiate(traps.Scale, x)


@kernel_spec(kernel=traps.scaled, candidates=STAGES, cases=CASES)
def counted_backward(case, seeded):
    x = x_of(case, seeded, requires_grad=True)
    return lambda: traps.differentiate(traps.CountedScale, x)


def taking_config(launch):
    """Declare a spec whose launch takes the config, named as its production code."""

    def builder(case, seeded):
        x = x_of(case, seeded)
        return lambda config: launch(x, config)

    builder.__name__ = launch.__name__
    return kernel_spec(kernel=traps.scaled, candidates=SPARE, cases=CASES, screen=True)(builder)


alias = taking_config(traps.alias)
point = taking_config(traps.point)
touch = taking_config(traps.touch)
reserve = taking_config(traps.reserve)
multiply = taking_config(traps.multiply)
look_up = taking_config(traps.look_up)
add_more = taking_config(traps.add_more)
swap = taking_config(traps.swap)
half = taking_config(traps.half)


@kernel_spec(kernel=traps.scaled, candidates=SPARE, cases=CASES, screen=True)
def choose(case, seeded):
    x, other = seeded.ones((case.n,)), seeded.ones((case.n,))
    return lambda config: traps.choose(x, other, config)


@kernel_spec(kernel=traps.scaled, candidates=SPARE, cases=CASES, screen=True)
def leave(case, seeded):
    x = x_of(case, seeded, requires_grad=True)
    return lambda config: traps.leave(x, config)
