"""What compiled code takes: shared memory, registers, stack, threads, tensor memory."""

import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from triton import knobs
from triton.compiler.compiler import CompiledKernel

_NVIDIA = re.compile(r"REG:(?P<registers>\d+) STACK:(?P<stack_bytes>\d+)")
_AMD = {
    "registers": re.compile(r"\.vgpr_count:\s*(\d+)"),
    "stack_bytes": re.compile(r"\.private_segment_fixed_size:\s*(\d+)"),
}
_AMD_SPILLS = re.compile(r"\.(vgpr|sgpr)_spill_count:\s*(\d+)")
_VECTOR_REGISTER_BYTES = 4
_NVIDIA_SPILLS = re.compile(r"(\d+) bytes spill stores")
_LIMIT_S = 60.0


@contextmanager
def ptxas_heard() -> Iterator[list[str]]:
    """Give a list that holds, after the block, what was printed in it: ptxas's log of what was compiled anew, for one.

    It goes on to the standard output, too.
    """
    told: list[str] = []
    printed = io.StringIO()
    with knobs.nvidia.scope():
        knobs.nvidia.dump_ptxas_log = True
        try:
            with redirect_stdout(printed):
                yield told
        finally:
            told.append(printed.getvalue())
            sys.stdout.write(printed.getvalue())
            sys.stdout.flush()


def read_resources(compiled: CompiledKernel, log: str = "") -> dict[str, int]:
    """Read what a compiled kernel takes, as far as it is known.

    `shared_bytes`, `num_warps`, `threads`, `tensor_columns`; of a thread: `registers`, `stack_bytes` (with arrays,
    and what functions such as a sine need), `spill_bytes`, for which an NVIDIA kernel needs ptxas's log; on AMD also
    `scalar_spills`, scalar registers of a wavefront that were put elsewhere.
    """
    metadata = compiled.metadata
    found: dict[str, Any] = {
        "shared_bytes": metadata.shared,
        "num_warps": metadata.num_warps,
        "threads": metadata.num_warps * metadata.target.warp_size,
        "tensor_columns": getattr(metadata, "tmem_size", None),
        **(_of_amd(compiled) if metadata.target.backend == "hip" else _of_nvidia(compiled, log)),
    }
    return {name: int(value) for name, value in found.items() if value is not None}


def _of_amd(compiled: CompiledKernel) -> dict[str, int]:
    """Read the notes that the assembler text ends with."""
    text = str(compiled.asm.get("amdgcn", ""))
    found = {name: pattern.search(text) for name, pattern in _AMD.items()}
    spilled = {kind: int(count) for kind, count in _AMD_SPILLS.findall(text)}
    return {
        **{name: int(match.group(1)) for name, match in found.items() if match},
        **({"spill_bytes": spilled["vgpr"] * _VECTOR_REGISTER_BYTES} if "vgpr" in spilled else {}),
        **({"scalar_spills": spilled["sgpr"]} if spilled.get("sgpr") else {}),
    }


def _of_nvidia(compiled: CompiledKernel, log: str) -> dict[str, int]:
    """Ask the tool that comes with Triton; what a stack is for, only ptxas says."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False).stdout  # noqa: S603 - Triton's own tool
    match = _NVIDIA.search(told)
    taken = {name: int(value) for name, value in match.groupdict().items()} if match else {}
    spills = [int(size_bytes) for size_bytes in _NVIDIA_SPILLS.findall(log)]  # of the kernel, and of functions in it
    if not spills and taken.get("stack_bytes") == 0:  # no place to spill to
        spills = [0]
    return taken | ({"spill_bytes": sum(spills)} if spills else {})
