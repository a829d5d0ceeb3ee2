"""What compiled code takes: shared memory, registers, stack, threads, tensor memory."""

import re
import subprocess
import tempfile
from typing import Any

from triton import knobs
from triton.compiler.compiler import CompiledKernel

_NVIDIA = re.compile(r"REG:(?P<registers>\d+) STACK:(?P<stack_bytes>\d+)")
_AMD = {
    "registers": re.compile(r"\.vgpr_count:\s*(\d+)"),
    "stack_bytes": re.compile(r"\.private_segment_fixed_size:\s*(\d+)"),
}
_LIMIT_S = 60.0


def read_resources(compiled: CompiledKernel) -> dict[str, int]:
    """Read what a compiled kernel takes.

    `shared_bytes`, `num_warps`, `threads`, `registers` (of a thread), `stack_bytes` (of a thread, with its spilled
    registers), `tensor_columns`, as far as they are known.
    """
    metadata = compiled.metadata
    found: dict[str, Any] = {
        "shared_bytes": metadata.shared,
        "num_warps": metadata.num_warps,
        "threads": metadata.num_warps * metadata.target.warp_size,
        "tensor_columns": getattr(metadata, "tmem_size", None),
        **(_of_amd(compiled) if metadata.target.backend == "hip" else _of_nvidia(compiled)),
    }
    return {name: int(value) for name, value in found.items() if value is not None}


def _of_amd(compiled: CompiledKernel) -> dict[str, int]:
    """Read the notes that the assembler text ends with."""
    text = str(compiled.asm.get("amdgcn", ""))
    found = {name: pattern.search(text) for name, pattern in _AMD.items()}
    return {name: int(match.group(1)) for name, match in found.items() if match}


def _of_nvidia(compiled: CompiledKernel) -> dict[str, int]:
    """Ask the tool that comes with Triton."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False).stdout  # noqa: S603 - Triton's own tool
    match = _NVIDIA.search(told)
    return {name: int(value) for name, value in match.groupdict().items()} if match else {}
