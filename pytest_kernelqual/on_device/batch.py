"""Batch invariance: rows alone and inside the whole batch, from the same input bytes, must give the same bytes."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import torch

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.on_device import element_types
from pytest_kernelqual.on_device.compare import mismatches, same
from pytest_kernelqual.on_device.executor import Executor, Run
from pytest_kernelqual.on_device.failed import LaunchFailed
from pytest_kernelqual.on_device.forms import Form
from pytest_kernelqual.on_device.guards import Buffer, plain_allocations
from pytest_kernelqual.on_device.inputs import SeededInputs
from pytest_kernelqual.on_device.memory import PATTERN_A
from pytest_kernelqual.on_device.outputs import Output
from pytest_kernelqual.on_device.snapshots import Draw
from pytest_kernelqual.on_device.wording import mismatch_in_words


class Part(NamedTuple):
    """Some rows of a batch."""

    rows: int
    """Of the whole batch."""
    start: int
    size: int

    def along(self, whole: Sequence[int], part: Sequence[int]) -> tuple[int, int, int] | None:
        """Return axis, start and size of a part within a whole of these shapes; None unless one axis follows rows."""
        differing = [axis for axis, sizes in enumerate(zip(whole, part, strict=False)) if sizes[0] != sizes[1]]
        if len(whole) != len(part) or len(differing) != 1:
            return None
        axis = differing[0]
        each, rest = divmod(whole[axis], self.rows)
        if rest or part[axis] != each * self.size:
            return None
        return axis, self.start * each, self.size * each

    def __str__(self) -> str:
        """Name the rows."""
        last = self.start + self.size - 1
        return f"row {last} alone" if self.size == 1 else f"rows {self.start} to {last} alone"


def parts_of(rows: int) -> list[Part]:
    """Return the last row and the first half of the batch; nothing where there is but one row."""
    return [Part(rows, rows - 1, 1), Part(rows, 0, rows // 2)] if rows > 1 else []


class PartInputs(SeededInputs):
    """Make the inputs of a part: what follows the batch is cut out of the whole batch's inputs."""

    def __init__(self, whole: SeededInputs, part: Part, **given: Any) -> None:
        """Cut out of `whole`, which is frozen; the rest is as for `SeededInputs`."""
        super().__init__(**given)
        self._whole = {item.name: item.pristine for item in whole.tensors}
        self._part = part

    def arange(self, n: int, **layout: Any) -> torch.Tensor:
        """Return 0 .. n-1 of the part's own n: it counts rows, or points at them."""
        whole, self._whole = self._whole, {}
        try:
            return super().arange(n, **layout)
        finally:
            self._whole = whole

    def randint(self, low: int, high: int, shape: Sequence[int], **layout: Any) -> torch.Tensor:
        """Return the whole batch's integers, which must be within the part's own limits."""
        made = super().randint(low, high, shape, **layout)
        if made.numel() and not low <= int(made.min()) <= int(made.max()) < high:
            raise InputError(f"randint of [{low}, {high}) has limits that follow the batch: it points at rows")
        return made

    def permutation(self, n: int, **layout: Any) -> torch.Tensor:
        """Return the whole batch's permutation, where it is not one of rows."""
        made = super().permutation(n, **layout)
        if made.numel() and int(made.max()) >= n:
            raise InputError(f"permutation({n}) follows the batch: it points at rows")
        return made

    def _make(self, form: Form, draw: Draw | None, **how: Any) -> torch.Tensor:
        tensor = super()._make(form, draw, **how)
        name = next(reversed(self._remembered))
        whole = self._whole.get(name)
        # What a value fills, and what has the same shape, has the same bytes already: they follow the position alone.
        if draw is None or whole is None or whole.shape == tensor.shape:
            return tensor
        place = self._part.along(whole.shape, tensor.shape)
        if place is None or whole.dtype != tensor.dtype:
            raise InputError(
                f"input {name!r} has the shape {tuple(whole.shape)} in the whole batch of {self._part.rows} rows and "
                f"{tuple(tensor.shape)} with {self._part.size}: no single axis follows the rows"
            )
        with torch.no_grad():
            element_types.as_bits(tensor.detach()).copy_(element_types.as_bits(whole).narrow(*place))
        return tensor


class BatchCheck:
    """Run parts of one case's batch under any config and hold them against the whole."""

    def __init__(self, whole: Executor, axis: str) -> None:
        """Prepare; nothing is built before the first check.

        Args:
            whole: Executor of the whole batch, built.
            axis: The case axis that counts the rows.
        """
        self._whole = whole
        self._axis = axis
        self._executors: dict[Part, Executor] = {}

    def check(self, config: Config | None, run: Run) -> tuple[bool | None, str]:
        """Tell whether the rows of a run on the whole batch have the same bytes alone; None: it cannot be told, why.

        Raises:
            LaunchFailed: The device is unusable.
        """
        parts = parts_of(int(self._whole.case.axes[self._axis]))
        if not parts:
            return None, f"{self._axis}=1 is no batch"
        compared = 0
        for part in parts:
            try:
                alone = self._executor(part).execute(config, PATTERN_A)
                with self._whole.failures():
                    pairs = _pairs(run.outputs, alone.outputs, part)
                    compared += len(pairs)
                    expected, actual = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
                    if not same(expected, actual):
                        return False, f"{part}: {mismatch_in_words(mismatches(expected, actual)[0])}"
            except LaunchFailed as failed:
                if failed.fatal:
                    raise
                return None, f"{part}: {failed.outcome}: {failed.reason}"
        return (True, "") if compared else (None, f"no output follows {self._axis}")

    def survivors(self) -> list[Buffer]:
        """Return what launches on parts left alive."""
        return [buffer for executor in self._executors.values() for buffer in executor.memory.survivors()]

    def _executor(self, part: Part) -> Executor:
        """Return the executor of a part, whose fixed launch told which inputs it changes."""
        if part not in self._executors:
            case = Case(**{**self._whole.case.axes, self._axis: part.size})
            made = self._whole.beside(case, partial(PartInputs, self._whole.inputs, part))
            made.build()
            made.mutated = made.execute(None, PATTERN_A).changed
            self._executors[part] = made
        return self._executors[part]


def _pairs(whole: Sequence[Output], alone: Sequence[Output], part: Part) -> list[tuple[Output, Output]]:
    """Return the rows of each output of the whole that follows the batch, and the part's own."""
    names = [output.name for output in whole]
    if names != [output.name for output in alone]:
        raise InputError(f"the whole batch gives {', '.join(names)}, a part {', '.join(one.name for one in alone)}")
    pairs = []
    for output, own in zip(whole, alone, strict=True):
        if output.shape == own.shape:
            continue  # a total over all rows, or something that has none
        place = part.along(output.shape, own.shape)
        if place is None:
            raise InputError(
                f"{output.name} has the shape {output.shape} in the whole batch and {own.shape} in a part: "
                "no single axis follows the rows"
            )
        pairs.append((_rows(output, own, place), own))
    return pairs


def _rows(output: Output, own: Output, place: tuple[int, int, int]) -> Output:
    """Cut rows out of an output, in the form of a part's."""
    axis, start, size = place
    outer, length = prod(output.shape[:axis]), output.shape[axis]
    with plain_allocations():
        cut = output.tensor.view(outer, length, -1).narrow(1, start, size) if output.tensor.numel() else output.tensor
        return dataclasses.replace(output, tensor=cut.reshape(-1), shape=own.shape, strides=own.strides, outside=None)
