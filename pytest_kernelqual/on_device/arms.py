"""From an open case to arms that can be timed against each other."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.model.config import Config, Scalar
from pytest_kernelqual.on_device.forms import Form
from pytest_kernelqual.on_device.inputs import SeededInputs
from pytest_kernelqual.on_device.qualify import OpenCase
from pytest_kernelqual.on_device.snapshots import Draw
from pytest_kernelqual.on_device.timing import Comparison, InputSet, Ruler


class _RingInputs(SeededInputs):
    """Inputs of one set of a ring: the values that the first set drew, in memory of their own."""

    def __init__(self, draws: list[torch.Tensor], *, changed: bool, **options: Any) -> None:
        super().__init__(**options)
        self._draws = draws
        self._changed = changed

    def _make(self, form: Form, draw: Draw | None, **how: Any) -> torch.Tensor:
        number = self._made
        if number < len(self._draws):  # copied, since to draw them again takes many times as long
            tensor = super()._make(form, None)
            tensor.detach().copy_(self._draws[number])
        else:
            tensor = super()._make(form, draw, **how)
            self._draws.append(tensor.detach().clone())
        return tensor

    def _pristine(self, live: torch.Tensor) -> torch.Tensor:
        return super()._pristine(live) if self._changed else live  # there is nothing to put back


def compare_arms(
    opened: OpenCase,
    arms: Sequence[dict[str, Scalar] | None],
    ruler: Ruler,
    *,
    stream: str,
    target_us: float,
    cold: bool,
) -> Comparison:
    """Return a comparison of arms; UnmeasurableError when the launches cannot be timed.

    Args:
        opened: A case whose fixed launch qualified.
        arms: Configs; None is the fixed launch.
        ruler: Of this device.
        stream: Names the seeds of the input sets.
        target_us: How long one sample should take.
        cold: Whether the inputs should come from memory and not from the L2 cache.
    """
    device, known = opened.device, opened.to_time
    if known is None:
        raise KernelqualError("a case was timed before it was opened; this is a fault of the tool")
    draws: list[torch.Tensor] = []

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *, name: str) -> torch.Tensor:
        del name
        # As production does: guards would move tensors against each other.
        return torch.empty_strided(shape, strides, dtype=dtype, device=device.torch_device)

    def make_set() -> InputSet:
        inputs = _RingInputs(
            draws,
            changed=known.mutates,
            stream=f"{stream}/ring",
            device=device.torch_device,
            interpreted=device.interpreted,
            allocate=allocate,
        )
        launch = opened.spec.builder(opened.case, inputs)
        inputs.freeze(launch)
        return InputSet(inputs, launch)

    configs = [Config(arm) if arm is not None else None for arm in arms]
    return Comparison(
        make_set,
        [partial(opened.observed, config) for config in configs],
        arguments=[(config,) if known.takes_config else () for config in configs],
        ruler=ruler,
        output_bytes=known.output_bytes,
        mutates=known.mutates,
        target_us=target_us,
        cold=cold,
    )
