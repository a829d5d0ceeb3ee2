"""Short launches, to be timed."""

from short import SIZES, work

from pytest_kernelqual import Case, Config, kernel_spec


@kernel_spec(
    candidates=[Config(MORE=0)],
    cases=[Case(n=n, work=iterations) for n, iterations in SIZES],
)
def short(case, seeded):
    """The same launch, whatever the config."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: work(x, case.work)
