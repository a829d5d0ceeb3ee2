"""Compile targets by name, and what a block of threads may take there."""

from typing import NamedTuple

from pytest_kernelqual.errors import SettingsError

_KIB = 1024


class Target(NamedTuple):
    """An architecture, and the limits of one block of threads on it."""

    name: str
    shared_bytes: int
    """Shared memory (LDS on AMD), the opt-in maximum."""
    threads: int = 1024
    tensor_columns: int = 0
    """Columns of tensor memory; 0 where there is none."""


# NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": maximum shared memory per
# thread block, threads per block. Tensor memory: PTX ISA, "Tensor Memory": 512 columns for sm_100 and sm_103.
# AMD: "Hardware specifications" of the ROCm documentation, LDS of a compute unit or of one half of a work-group
# processor, which is what one work-group may take; work-groups of at most 1024 work-items.
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
        Target("hip:gfx90a", 64 * _KIB),
        Target("hip:gfx942", 64 * _KIB),
        Target("hip:gfx950", 160 * _KIB),
        Target("hip:gfx1030", 64 * _KIB),
        Target("hip:gfx1100", 64 * _KIB),
        Target("hip:gfx1101", 64 * _KIB),
        Target("hip:gfx1151", 64 * _KIB),
        Target("hip:gfx1200", 64 * _KIB),
        Target("hip:gfx1201", 64 * _KIB),
    )
}

# Product names as drivers report them, matched by what is distinctive in them.
_PRODUCTS = {
    "T4": "cuda:75",
    "A100": "cuda:80",
    "A30": "cuda:80",
    "A10": "cuda:86",
    "A40": "cuda:86",
    "RTX A6000": "cuda:86",
    "RTX 3090": "cuda:86",
    "L4": "cuda:89",
    "L40": "cuda:89",
    "L40S": "cuda:89",
    "RTX 4090": "cuda:89",
    "H100": "cuda:90",
    "H200": "cuda:90",
    "H20": "cuda:90",
    "GH200": "cuda:90",
    "B200": "cuda:100",
    "GB200": "cuda:100",
    "B300": "cuda:103",
    "GB300": "cuda:103",
    "RTX 5090": "cuda:120",
    "MI210": "hip:gfx90a",
    "MI250": "hip:gfx90a",
    "MI250X": "hip:gfx90a",
    "MI300A": "hip:gfx942",
    "MI300X": "hip:gfx942",
    "MI325X": "hip:gfx942",
    "MI350X": "hip:gfx950",
    "MI355X": "hip:gfx950",
    "RX 7900 XTX": "hip:gfx1100",
}


def find_target(name: str) -> Target:
    """Return the target of an architecture (`cuda:90`) or product ("NVIDIA H200"); SettingsError lists the known ones.

    Raises:
        SettingsError: The name is not known.
    """
    known = name if name in _TARGETS else _of_product(name)
    if known is None:
        raise SettingsError(
            f"compile target {name!r} is not known; use one of {', '.join(_TARGETS)}, "
            f"or a product such as {', '.join(list(_PRODUCTS)[:3])}, ..."
        )
    return _TARGETS[known]


def _of_product(name: str) -> str | None:
    """Return the target of the longest product whose words stand in a name."""
    words = f" {name.upper().replace('-', ' ').replace('_', ' ')} "
    named = [product for product in _PRODUCTS if f" {product} " in words]
    return _PRODUCTS[max(named, key=len)] if named else None
