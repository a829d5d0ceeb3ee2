"""Compiled code is compared without what only debuggers read."""

import importlib.util
import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from triton import compile as triton_compile
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pytest_kernelqual.launch import binary as binary_module
from pytest_kernelqual.launch.binary import code_digest

TARGETS = {
    "cuda:90": GPUTarget("cuda", 90, 32),
    "cuda:100": GPUTarget("cuda", 100, 32),
    "hip:gfx942": GPUTarget("hip", "gfx942", 64),
}
SOURCE = """
import triton
import triton.language as tl


@triton.jit
def {name}(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK){moved}
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, v * {factor} + 1, mask=at < n)
"""

Compile = Callable[..., bytes]


@pytest.fixture(params=TARGETS)
def compiled(request: pytest.FixtureRequest, tmp_path: Path) -> Compile:
    """Give what compiles a kernel, written to a file of its own, for a target."""

    def compile_kernel(
        folder: str, *, moved: str = "", factor: float = 2.0, name: str = "kernel", **options: Any
    ) -> bytes:
        path = tmp_path / folder / "kernels.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(moved + SOURCE.format(moved=moved, factor=factor, name=name))
        kernel = getattr(_loaded(path), name)
        signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
        with knobs.cache.scope():
            knobs.cache.dir = str(tmp_path / "cache")
            made = triton_compile(
                ASTSource(kernel, signature, {(3,): 256}, {}),
                target=TARGETS[request.param],
                options={"num_warps": 4, **options},
            )
        binary: bytes = made.kernel
        return binary

    return compile_kernel


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"kernels_of_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with knobs.runtime.scope():
        knobs.runtime.interpret = False
        spec.loader.exec_module(module)
    return module


def test_path_and_lines_are_no_part_of_the_code(compiled: Compile) -> None:
    """They are in debug sections, in which the files differ."""
    here, there = compiled("here"), compiled("a/longer/way/there", moved="\n" * 70)
    assert here != there
    assert code_digest(here) == code_digest(there)


def test_options_that_change_nothing(compiled: Compile) -> None:
    """A kernel without a loop has nothing to pipeline."""
    assert code_digest(compiled("here", num_stages=1)) == code_digest(compiled("here", num_stages=2))


@pytest.mark.parametrize("change", [{"factor": 3.0}, {"num_warps": 8}, {"name": "debug_line"}])
def test_other_code_has_another_digest(compiled: Compile, change: dict[str, Any]) -> None:
    """A constant, a layout, and a name that reads like a debug section's."""
    assert code_digest(compiled("here")) != code_digest(compiled("here", **change))


def test_every_byte_of_the_code_counts(compiled: Compile) -> None:
    """One bit, anywhere in the instructions, the constants, and what the driver is told of them."""
    binary = compiled("here", name="debug_line")
    before = code_digest(binary)
    prefixes = (".text", ".nv.info", ".nv.constant", ".nv.capmerc.text", ".rodata", ".note")
    sections = [one for one in ELFFile(io.BytesIO(binary)).iter_sections() if one.name.startswith(prefixes)]
    assert any(section.name.startswith(".text") for section in sections)
    for section in sections:
        for at in {0, section["sh_size"] // 2, section["sh_size"] - 1}:
            changed = bytearray(binary)
            changed[section["sh_offset"] + at] ^= 1
            assert code_digest(bytes(changed)) != before, (section.name, at)


def test_debug_sections_are_all_that_is_left_out(compiled: Compile) -> None:
    """Whatever stands in them."""
    binary = compiled("here")
    before = code_digest(binary)
    elf = ELFFile(io.BytesIO(binary))
    changed = bytearray(binary)
    sections = [section for section in elf.iter_sections() if section.name.startswith((".debug_", ".nv_debug_"))]
    assert sections
    for section in sections:
        start = section["sh_offset"]
        changed[start : start + section["sh_size"]] = bytes(section["sh_size"])
    assert bytes(changed) != binary
    assert code_digest(bytes(changed)) == before


def test_without_the_library_no_code_is_known(compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra, which ROCm's users may leave out."""
    code = compiled("here", name="nowhere_else")
    monkeypatch.setattr(binary_module, "ELFFile", None)
    assert code_digest(code) is None


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"no file of this kind", 100, 1000])
def test_what_cannot_be_read_has_no_digest(compiled: Compile, damage: bytes | int) -> None:
    """It is never taken for equal to anything."""
    binary = compiled("here")
    assert code_digest(binary[:damage] if isinstance(damage, int) else damage) is None
