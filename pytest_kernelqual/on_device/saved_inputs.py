"""Inputs of a case in a file, and a case that takes them from there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.repro import InputsSaved
from pytest_kernelqual.model.spec import KernelSpec
from pytest_kernelqual.on_device.element_types import as_bits
from pytest_kernelqual.on_device.executor import Executor
from pytest_kernelqual.on_device.failed import LaunchFailed
from pytest_kernelqual.on_device.inputs import SeededInputs


def save_inputs(executor: Executor, file: Path) -> InputsSaved:
    """Write the inputs of a case to a file, by name."""
    try:
        executor.build()
    except LaunchFailed as failed:
        return InputsSaved(problem=f"{failed.outcome}: {failed.reason}")
    torch.save({item.name: item.pristine.detach().cpu().contiguous() for item in executor.inputs.tensors}, file)
    return InputsSaved()


def with_saved_inputs(spec: KernelSpec, file: str) -> KernelSpec:
    """Return a spec whose builder gives its inputs the bytes of a file."""

    def builder(case: Case, seeded: SeededInputs) -> Any:
        launch = spec.builder(case, seeded)
        try:
            saved: dict[str, torch.Tensor] = torch.load(file, weights_only=True)
        except Exception as error:
            raise InputError(f"cannot read the inputs of {file!a}: {type(error).__name__}: {error}") from error
        for name, tensor in seeded.remembered.items():
            kept = saved.get(name)
            if kept is None or (kept.shape, kept.dtype) != (tensor.shape, tensor.dtype):
                told = "none" if kept is None else f"one of {tuple(kept.shape)} {kept.dtype}"
                raise InputError(
                    f"{file!a} holds {told} for input {name!r}, which the builder makes of {tuple(tensor.shape)} "
                    f"{tensor.dtype}; write the repro anew"
                )
            with torch.no_grad():
                as_bits(tensor.detach()).copy_(as_bits(kept))
        return launch

    return replace(spec, builder=builder)
