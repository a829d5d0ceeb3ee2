"""The 48 configs of a GEMM as candidates."""

from gemm_48 import CONFIGS, matmul, matmul_kernel

from pytest_kernelqual import Case, Config, kernel_spec


@kernel_spec(
    kernel=matmul_kernel,
    candidates=[Config(config) for config in CONFIGS],
    cases=[Case(n=1024)],
    screen="a search space: configs that give other bytes are left out",
)
def gemm_48(case, seeded):
    """Square float16 matrices; the fixed launch has the first config."""
    a = seeded.normal((case.n, case.n), dtype="float16", name="a")
    b = seeded.normal((case.n, case.n), dtype="float16", name="b")
    return lambda: matmul(a, b, config=CONFIGS[0])
