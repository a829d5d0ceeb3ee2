"""Specs of the test suite: every kind of kernel, and every way of telling how configs reach it."""

from kinds import eightfold, even, even_kernel, multiplied, parts_, parts_kernel, tuned, tuned_kernel

from pytest_kernelqual import Case, Config, grid, kernel_spec

CASES = [Case(n=150), Case(n=128)]


@kernel_spec(kernel=tuned_kernel, cases=CASES)
def own_configs(case, seeded):
    """The candidates are the autotuner's configs; the fixed launch is the first of them."""
    x = seeded.normal((case.n,))
    return lambda: tuned(x)


@kernel_spec(
    kernel=tuned_kernel, cases=CASES, fixed=Config(BLOCK=64, num_warps=2), candidates=grid(BLOCK=[16]), marks=["tuned"]
)
def named_fixed(case, seeded):
    """The fixed launch is named."""
    x = seeded.normal((case.n,))
    return lambda: tuned(x)


@kernel_spec(kernel=even_kernel, cases=CASES, candidates=grid(BLOCK=[32, 100, 128]))
def heuristics(case, seeded):
    """EVEN follows the forced block size; BLOCK=100 is no power of two."""
    x = seeded.normal((case.n,))
    return lambda: even(x)


@kernel_spec(
    kernel=parts_kernel,
    cases=CASES,
    candidates=grid(BLOCK=[32, 128], UNROLL=[1, 4]),
    grid=lambda meta: (-(-meta["n"] // meta["BLOCK"]),),
)
def given_grid(case, seeded):
    """The tuple grid is computed anew."""
    x = seeded.normal((case.n,), name="x")
    return lambda: parts_(x)


@kernel_spec(kernel=parts_kernel, cases=CASES, candidates=grid(UNROLL=[1, 4]), grid_independent=("UNROLL",))
def independent_grid(case, seeded):
    """The tuple grid does not depend on UNROLL."""
    x = seeded.normal((case.n,), name="x")
    return lambda: parts_(x)


@kernel_spec(kernel=parts_kernel, cases=CASES, candidates=grid(BLOCK=[32, 64], UNROLL=[2]))
def following_grid(case, seeded):
    """Nothing is said of the tuple grid: only production's own block size can be forced."""
    x = seeded.normal((case.n,), name="x")
    return lambda: parts_(x)


@kernel_spec(kernel=tuned_kernel, cases=CASES, candidates=grid(BLOCK=[16, 64]))
def launched_twice(case, seeded):
    """Two launches of the kernel in one call, with another kernel in between."""
    x = seeded.normal((case.n,))
    return lambda: eightfold(x)


@kernel_spec(kernel=even_kernel, cases=CASES, candidates=grid(BLOCK=[16, 64]))
def among_others(case, seeded):
    """The other kernel of the call is autotuned, and pinned."""
    x = seeded.normal((case.n,))
    return lambda: eightfold(x)


@kernel_spec(cases=CASES, candidates=grid(FACTOR=[2, 2.0, 3]), screen="one of them is planted")
def config_taken(case, seeded):
    """The launch takes the config."""
    x = seeded.normal((case.n,))
    return lambda config: multiplied(x, config)
