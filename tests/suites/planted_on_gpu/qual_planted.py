"""Planted faults: each must cost exactly its own candidate, and the candidates after it must qualify."""

from planted import _matmul, copy, matmul

from pytest_kernelqual import Case, Config, kernel_spec

FAULTS = ("first", "illegal_access", "second", "endless_loop", "third", "abort", "fourth", "trap", "last")


@kernel_spec(candidates=[Config(FAULT=name) for name in FAULTS], cases=[Case(n=100_000)], run_timeout_s=10)
def faults(case, seeded):
    """Launch with the fault that the config names."""
    x = seeded.normal((case.n,), name="x")
    flag = seeded.zeros((1,), dtype="int32", name="flag")
    return lambda config: copy(x, flag, config["FAULT"] if config else "none")


@kernel_spec(
    kernel=_matmul,
    candidates=[
        Config(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=3),
        Config(BLOCK_M=256, BLOCK_N=256, BLOCK_K=128, num_warps=8, num_stages=5),
        Config(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=4),
        Config(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=64, num_stages=3),
        Config(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=3, num_stages=3),
        Config(BLOCK_M=64, BLOCK_N=128, BLOCK_K=64, num_warps=4, num_stages=4),
    ],
    cases=[Case(n=1024, interpreter={"n": 256})],
)
def resources(case, seeded):
    """One candidate needs more shared memory than any GPU has, one more threads, one is no power of two."""
    a = seeded.normal((case.n, case.n), dtype="bfloat16", name="a")
    b = seeded.normal((case.n, case.n), dtype="bfloat16", name="b")
    return lambda: matmul(a, b)
