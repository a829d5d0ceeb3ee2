"""Compile targets by name, and what a block of threads may take there."""

from collections.abc import Sequence
from typing import NamedTuple

from pytest_kernelqual.errors import SettingsError

_KIB = 1024
# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": x, y and z of a grid of blocks, for
# all of them. What a HIP launch says to large grids is not documented for each device.
_CUDA_GRID = (2**31 - 1, 65535, 65535)


class Target(NamedTuple):
    """An architecture, and the limits of one block of threads on it."""

    name: str
    shared_bytes: int
    """Shared memory (LDS on AMD), the opt-in maximum."""
    threads: int = 1024
    tensor_columns: int = 0
    """Columns of tensor memory; 0 where there is none."""
    registers: int = 255
    """Registers that a thread may have; the compiler keeps to it, and puts on the stack what is beyond."""
    compute_units: int = 0
    """Streaming multiprocessors or compute units of a product; 0 where they are not known."""

    @property
    def most_programs(self) -> tuple[int, ...]:
        """Return how many programs a grid may have along each axis; empty where that is not known."""
        return _CUDA_GRID if self.name.startswith("cuda:") else ()


# NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": maximum shared memory per
# thread block, threads per block. Tensor memory: PTX ISA, "Tensor Memory": 512 columns for sm_100 and sm_103.
# AMD: "Hardware specifications" of the ROCm documentation, LDS of a compute unit or of one half of a work-group
# processor, which is what one work-group may take; work-groups of at most 1024 work-items.
# Registers of a thread: the same table of NVIDIA's; AMD's instruction set manuals: 512 vector registers, those for
# accumulation among them, on CDNA 2 and later, 256 on RDNA.
_TARGETS = {
    target.name: target
    for target in (
        Target("cuda:75", 64 * _KIB),
        Target("cuda:80", 163 * _KIB),
        Target("cuda:86", 99 * _KIB),
        Target("cuda:87", 163 * _KIB),
        Target("cuda:89", 99 * _KIB),
        Target("cuda:90", 227 * _KIB),
        Target("cuda:100", 227 * _KIB, tensor_columns=512),
        Target("cuda:103", 227 * _KIB, tensor_columns=512),
        Target("cuda:120", 99 * _KIB),
        Target("cuda:121", 99 * _KIB),
        Target("hip:gfx90a", 64 * _KIB, registers=512),
        Target("hip:gfx942", 64 * _KIB, registers=512),
        Target("hip:gfx950", 160 * _KIB, registers=512),
        Target("hip:gfx1030", 64 * _KIB, registers=256),
        Target("hip:gfx1100", 64 * _KIB, registers=256),
        Target("hip:gfx1101", 64 * _KIB, registers=256),
        Target("hip:gfx1151", 64 * _KIB, registers=256),
        Target("hip:gfx1200", 64 * _KIB, registers=256),
        Target("hip:gfx1201", 64 * _KIB, registers=256),
    )
}

# Product names as drivers report them, matched by what is distinctive in them, with compute units of the data sheets
# (H100: SXM). What stands first for an architecture is asked of where the architecture alone is named.
_PRODUCTS = {
    "T4": ("cuda:75", 40),
    "A100": ("cuda:80", 108),
    "A30": ("cuda:80", 56),
    "A10": ("cuda:86", 72),
    "A40": ("cuda:86", 84),
    "RTX A6000": ("cuda:86", 84),
    "RTX 3090": ("cuda:86", 82),
    "L40S": ("cuda:89", 142),
    "L40": ("cuda:89", 142),
    "L4": ("cuda:89", 58),
    "RTX 4090": ("cuda:89", 128),
    "H100": ("cuda:90", 132),
    "H200": ("cuda:90", 132),
    "H20": ("cuda:90", 78),
    "GH200": ("cuda:90", 132),
    "B200": ("cuda:100", 148),
    "GB200": ("cuda:100", 0),
    "B300": ("cuda:103", 0),
    "GB300": ("cuda:103", 0),
    "RTX 5090": ("cuda:120", 170),
    "MI210": ("hip:gfx90a", 104),
    "MI250": ("hip:gfx90a", 104),
    "MI250X": ("hip:gfx90a", 110),
    "MI300X": ("hip:gfx942", 304),
    "MI300A": ("hip:gfx942", 228),
    "MI325X": ("hip:gfx942", 304),
    "MI350X": ("hip:gfx950", 256),
    "MI355X": ("hip:gfx950", 256),
    "RX 7900 XTX": ("hip:gfx1100", 0),
}


def find_target(name: str) -> Target:
    """Return the target of an architecture (`cuda:90`) or product ("NVIDIA H200"); SettingsError lists the known ones.

    Raises:
        SettingsError: The name is not known.
    """
    product = next((one for one, (target, _) in _PRODUCTS.items() if target == name), "")
    if name not in _TARGETS:
        product = _named(name)
    known, compute_units = _PRODUCTS.get(product, (name, 0))
    if known not in _TARGETS:
        raise SettingsError(
            f"compile target {name!r} is not known; use one of {', '.join(_TARGETS)}, "
            f"or the name of a product that has one of these words: {', '.join(_PRODUCTS)}"
        )
    return _TARGETS[known]._replace(compute_units=compute_units)


def distinct_targets(names: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the first name of each architecture, which stands for it, and a line for each of the others.

    Raises:
        SettingsError: A name is not known.
    """
    first: dict[str, str] = {}
    lines = []
    for name in dict.fromkeys(names):
        target = find_target(name)
        stands = first.setdefault(target.name, name)
        if stands != name:
            units = [str(find_target(one).compute_units or "unknown") for one in (stands, name)]
            lines.append(
                f"{name} is not compiled for by itself: {stands} stands for {target.name} "
                f"(compute units: {units[0]}; {name}: {units[1]})"
            )
    return tuple(first.values()), lines


def _named(name: str) -> str:
    """Return the longest product whose words stand in a name."""
    words = f" {name.upper().replace('-', ' ').replace('_', ' ')} "
    return max((product for product in _PRODUCTS if f" {product} " in words), key=len, default="")
