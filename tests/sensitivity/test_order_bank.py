"""Fingerprints of arithmetic order tell apart what changes bytes, and call equal what does not."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from triton import knobs
from triton.backends.compiler import GPUTarget

BANK = Path(__file__).parent / "order_bank"
SIZES = ("small", "large")
NVIDIA = GPUTarget("cuda", 90, 32)
AMD = GPUTarget("hip", "gfx942", 64)

# Kept by what AMD's compiler does: NaN payloads of maxima, products that it fuses or not.
LEAST_EQUAL = 0.85


@pytest.fixture(scope="module")
def bank() -> ModuleType:
    """Give the pairs, whose kernels are compiled."""
    sys.path.insert(0, str(BANK))
    with knobs.runtime.scope():
        knobs.runtime.interpret = False
        importlib.import_module("pairs")
        return importlib.import_module("verdicts")


def verdicts(bank: ModuleType, pairs: Any, target: GPUTarget) -> dict[tuple[str, str], str]:
    """Return what the fingerprints say, by pair and size; on AMD at large shapes, and with options that it has."""
    found = {}
    for pair in pairs:
        if target is AMD and "maxnreg" in pair.a:
            continue
        for size in SIZES if target is NVIDIA else SIZES[1:]:
            found[pair.name, size] = bank.verdict(pair, getattr(pair, size), target).verdict
    return found


def test_bank_is_large_enough(bank: ModuleType) -> None:
    """At least 40 pairs of each kind, each with a name of its own."""
    pairs = sys.modules["pairs"]
    assert min(len(pairs.CHANGING), len(pairs.KEEPING)) >= 40
    names = [pair.name for pair in (*pairs.CHANGING, *pairs.KEEPING, *pairs.UNDECIDED)]
    assert len(names) == len(set(names))
    assert bank.verdict is not None


@pytest.mark.parametrize("target", [NVIDIA, AMD], ids=["cuda:90", "hip:gfx942"])
def test_what_changes_bytes_is_never_called_equal(bank: ModuleType, target: GPUTarget) -> None:
    """At small shapes, where bytes often agree, and at large ones."""
    found = verdicts(bank, sys.modules["pairs"].CHANGING, target)
    assert [key for key, verdict in found.items() if verdict == "equal"] == []


def test_what_keeps_bytes_is_called_equal(bank: ModuleType) -> None:
    """Nearly always: what is not is a lost proof, no false one."""
    found = verdicts(bank, sys.modules["pairs"].KEEPING, NVIDIA)
    lost = [key for key, verdict in found.items() if verdict != "equal"]
    assert len(lost) <= (1 - LEAST_EQUAL) * len(found), lost


def test_amd_keeps_most(bank: ModuleType) -> None:
    """Less than NVIDIA: maxima that keep a NaN's payload, and products that its compiler fuses or not."""
    found = verdicts(bank, sys.modules["pairs"].KEEPING, AMD)
    equal = sum(verdict == "equal" for verdict in found.values())
    assert equal > len(found) * 0.8
