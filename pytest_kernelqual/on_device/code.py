"""The compiled code of what a case would launch, as text."""

import subprocess
import tempfile
from dataclasses import replace
from typing import Any

from triton import knobs

from pytest_kernelqual.launch import DryLaunch, Program
from pytest_kernelqual.launch.resources import read_resources
from pytest_kernelqual.model.code import CodeRead, LaunchCode
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.on_device.executor import Executor
from pytest_kernelqual.on_device.failed import LaunchFailed
from pytest_kernelqual.on_device.orders import ordered

_TEXTS = ("ttir", "ttgir", "ptx", "amdgcn")
_LIMIT_S = 60.0


def read_code(executor: Executor, config: Config) -> CodeRead:
    """Compile the fixed launch and a candidate of a case that is not built, launching nothing; return their code."""
    who = "the fixed launch"
    try:
        executor.build()
        fixed = _compiled(executor, None)
        who = "the candidate"
        own = _compiled(executor, config)
    except LaunchFailed as failed:
        return CodeRead(problem=f"{who}: {failed.outcome}: {failed.reason}")
    if not fixed and not own:
        return CodeRead(problem="neither launches a Triton kernel")
    order = ordered(*(Program(digest="", launches=[], all_launches=tuple(side)) for side in (fixed, own))).order
    return CodeRead(
        fixed=[*map(_code, fixed)],
        candidate=[*map(_code, own)],
        order=order.verdict,
        order_reasons=list(order.reasons),
    )


def _compiled(executor: Executor, config: Config | None) -> list[DryLaunch]:
    run, failed = executor.dry_run(config)
    if failed is not None:
        raise failed
    made = []
    for launch in run.launches:
        executor.enter("compile")
        with executor.failures():
            made.append(replace(launch, compiled=launch.specialisation.compile()))
    return made


def _code(launch: DryLaunch) -> LaunchCode:
    compiled: Any = launch.compiled
    stages = {name: compiled.asm[name] for name in _TEXTS if isinstance(compiled.asm.get(name), str)}
    if "cubin" in compiled.asm:
        stages["sass"] = _disassembled(compiled.asm["cubin"])
    return LaunchCode(
        kernel=launch.jit.fn.__name__, grid=launch.grid, resources=read_resources(compiled), stages=stages
    )


def _disassembled(cubin: bytes) -> str:
    """Return the SASS, by the tool that comes with Triton; what the tool says where it cannot."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        try:
            command = [knobs.nvidia.nvdisasm.path, "--print-code", file.name]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)  # noqa: S603 - Triton's own tool
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            return f"// nvdisasm: {error}"
    return done.stdout if done.returncode == 0 else f"// nvdisasm: {done.stderr.strip()}"
