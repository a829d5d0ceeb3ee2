"""Fixed launches that cannot serve as reference: candidates are not run."""

from limits import broken_production

from pytest_kernelqual import Case, Config, kernel_spec

CANDIDATES = [Config(A=1)]
CASES = [Case(n=40)]


@kernel_spec(candidates=CANDIDATES, cases=CASES)
def fixed_unwritten(case, seeded):
    """Leave an element unwritten."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: broken_production(x, "unwritten")


@kernel_spec(candidates=CANDIDATES, cases=CASES)
def fixed_random(case, seeded):
    """Give other bytes on each launch."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: broken_production(x, "random")


@kernel_spec(candidates=CANDIDATES, cases=CASES)
def fixed_reads_unwritten(case, seeded):
    """Read memory that nobody wrote."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: broken_production(x, "reads_unwritten")


@kernel_spec(candidates=CANDIDATES, cases=CASES)
def fixed_out_of_bounds(case, seeded):
    """Write past the end."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: broken_production(x, "out_of_bounds")


@kernel_spec(candidates=CANDIDATES, cases=CASES)
def fixed_nothing(case, seeded):
    """Give nothing that can be compared."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: broken_production(x, "nothing")


@kernel_spec(candidates=CANDIDATES, cases=CASES)
def fixed_aborts(case, seeded):
    """Abort."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: broken_production(x, "aborts")


@kernel_spec(candidates=CANDIDATES, cases=CASES, run_timeout_s=2)
def fixed_endless(case, seeded):
    """Never come back."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: broken_production(x, "endless")
