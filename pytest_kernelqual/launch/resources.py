"""What compiled code takes: shared memory, registers, stack, threads, tensor memory."""

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from triton import knobs
from triton.compiler.compiler import CompiledKernel
from triton.runtime.cache import get_cache_manager

# Beside the code in Triton's cache, so that it is read once.
_FILE = "kernelqual-resources.json"
_NVIDIA = re.compile(r"REG:(?P<registers>\d+) STACK:(?P<stack_bytes>\d+)")
_AMD = {
    "registers": re.compile(r"\.vgpr_count:\s*(\d+)"),
    "stack_bytes": re.compile(r"\.private_segment_fixed_size:\s*(\d+)"),
}
_LIMIT_S = 60.0


def known_resources(key: str) -> dict[str, int] | None:
    """Return what was read of a code object before, by its key in Triton's cache."""
    path = get_cache_manager(key).get_file(_FILE)
    return None if path is None else json.loads(Path(path).read_text())


def read_resources(compiled: CompiledKernel) -> dict[str, int]:
    """Read what a compiled kernel takes, and keep it in Triton's cache.

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
    resources = {name: int(value) for name, value in found.items() if value is not None}
    get_cache_manager(compiled.hash).put(json.dumps(resources), _FILE, binary=False)
    return resources


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
