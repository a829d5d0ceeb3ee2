"""Print what seeded inputs cost next to torch's own generators: `python benchmarks/inputs.py [--elements N]`.

On a machine with a GPU the same is measured there, and the bytes of both devices are compared.
"""

import argparse
import time
from collections.abc import Callable

import torch
from tabulate import tabulate

from pytest_kernelqual.on_device.inputs import SeededInputs

Make = Callable[[SeededInputs, int], torch.Tensor]
Reference = Callable[[int, torch.device], torch.Tensor]

METHODS: dict[str, tuple[Make, Reference]] = {
    "normal float32": (lambda s, n: s.normal((n,)), lambda n, d: torch.randn(n, device=d)),
    "normal bfloat16": (
        lambda s, n: s.normal((n,), dtype="bfloat16"),
        lambda n, d: torch.randn(n, device=d, dtype=torch.bfloat16),
    ),
    "normal float8_e4m3fn": (
        lambda s, n: s.normal((n,), dtype="float8_e4m3fn"),
        lambda n, d: torch.randn(n, device=d).to(torch.float8_e4m3fn),
    ),
    "normal float64": (
        lambda s, n: s.normal((n,), dtype="float64"),
        lambda n, d: torch.randn(n, device=d, dtype=torch.float64),
    ),
    "normal float32, column-major": (
        lambda s, n: s.normal((n // 1024, 1024), layout="column_major"),
        lambda n, d: torch.randn(1024, n // 1024, device=d).t(),
    ),
    "uniform float32": (lambda s, n: s.uniform((n,)), lambda n, d: torch.rand(n, device=d)),
    "randint int64": (lambda s, n: s.randint(0, 32000, (n,)), lambda n, d: torch.randint(0, 32000, (n,), device=d)),
    "bernoulli bool": (
        lambda s, n: s.bernoulli((n,), p=0.1),
        lambda n, d: torch.empty(n, device=d, dtype=torch.bool).bernoulli_(0.1),
    ),
    "permutation int64": (lambda s, n: s.permutation(n), lambda n, d: torch.randperm(n, device=d)),
}


def main() -> None:
    """Measure every method on every device of this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=1 << 24, help="elements of each tensor (default: 16,777,216)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which the fastest counts (default: 3)")
    options = parser.parse_args()
    devices = [torch.device("cpu"), *([torch.device("cuda", 0)] if torch.cuda.is_available() else [])]
    for device in devices:
        rows = [_row(name, device, options.elements, options.rounds) for name in METHODS]
        print(
            f"\n{device}, {options.elements:,} elements, {torch.get_num_threads()} threads, torch {torch.__version__}"
        )
        print(tabulate(rows, headers=["values", "seeded ms", "torch ms", "seeded / torch"], floatfmt=".2f"))
        print(_upkeep(device, options.elements, options.rounds))
    if len(devices) > 1:
        print("\nbytes on cpu and cuda:", _compare(devices, min(options.elements, 1 << 22)))


def _inputs(device: torch.device) -> SeededInputs:
    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *, name: str) -> torch.Tensor:
        del name
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    return SeededInputs(stream="benchmark", device=device, interpreted=False, allocate=allocate)


def _row(name: str, device: torch.device, elements: int, rounds: int) -> list[object]:
    make, reference = METHODS[name]
    ours = _fastest_ms(lambda: make(_inputs(device), elements), device, rounds)
    theirs = _fastest_ms(lambda: reference(elements, device), device, rounds)
    return [name, ours, theirs, ours / theirs]


def _upkeep(device: torch.device, elements: int, rounds: int) -> str:
    seeded = _inputs(device)
    tensor = seeded.normal((elements,))
    seeded.freeze(lambda: tensor)
    restore = _fastest_ms(seeded.restore, device, rounds)
    changed = _fastest_ms(seeded.changed, device, rounds)
    describe = _fastest_ms(seeded.descriptions, device, 0)
    return f"of {elements * 4:,} bytes: restore {restore:.2f} ms, changed {changed:.2f} ms, digest {describe:.2f} ms"


def _fastest_ms(action: Callable[[], object], device: torch.device, rounds: int) -> float:
    """Return the fastest of a first call and `rounds` more; the first alone where rounds is 0."""
    times = []
    for _ in range(rounds + 1):
        _wait(device)
        begin = time.perf_counter()
        action()
        _wait(device)
        times.append((time.perf_counter() - begin) * 1e3)
    return min(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _compare(devices: list[torch.device], elements: int) -> str:
    different = []
    for name, (make, _) in METHODS.items():
        one, other = (make(_inputs(device), elements).cpu().contiguous().view(torch.uint8) for device in devices)
        if not torch.equal(one, other):
            different.append(name)
    return f"DIFFERENT for {', '.join(different)}" if different else f"equal for all {len(METHODS)} methods"


if __name__ == "__main__":
    main()
