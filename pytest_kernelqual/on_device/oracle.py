"""The oracle of a spec: asked for independent references of the outputs, from inputs as the builder made them."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.record import Deviation
from pytest_kernelqual.model.spec import Oracle
from pytest_kernelqual.model.tolerance import Tolerance
from pytest_kernelqual.on_device.deviations import deviation
from pytest_kernelqual.on_device.distances import dtype_of, is_float
from pytest_kernelqual.on_device.memory import plain_allocations
from pytest_kernelqual.on_device.outputs import Output, leaves
from pytest_kernelqual.on_device.snapshots import InputTensor

_KINDS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


class OracleInputs(Mapping[str, Tensor]):
    """Give the inputs by name, as items or attributes; each is a copy made when it is first asked for."""

    def __init__(self, inputs: list[InputTensor]) -> None:
        """Keep the pristine inputs."""
        self._pristine = {item.name: item.pristine for item in inputs}
        self._copies: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        """Return the input of a name."""
        if name not in self._pristine:
            raise KeyError(self._unknown(name))
        if name not in self._copies:
            self._copies[name] = self._pristine[name].detach().clone()
        return self._copies[name]

    def __getattr__(self, name: str) -> Tensor:
        """Return the input of a name that is an identifier."""
        if name.startswith("_") or name not in self._pristine:
            raise AttributeError(self._unknown(name))
        return self[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over names in the order in which the inputs were made."""
        return iter(self._pristine)

    def __len__(self) -> int:
        """Count the inputs."""
        return len(self._pristine)

    def _unknown(self, name: str) -> str:
        near = get_close_matches(str(name), self._pristine, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"inputs: {', '.join(self._pristine) or 'none'}"
        return f"no input is named {name!r}; {hint}"


References = dict[str, Tensor]
"""The reference of each output that the oracle judges, by name."""


def consult(oracle: Oracle, case: Case, inputs: list[InputTensor], outputs: list[Output]) -> References:
    """Return what the oracle says; InputError where that does not match the outputs, and whatever it raises."""
    told = oracle(case, OracleInputs(inputs))
    by_name = {output.name: output for output in outputs}
    if isinstance(told, Mapping) and told:
        given = _named(told, list(by_name))
    else:
        found = [] if told is None else list(leaves("return", told))
        if len(found) != len(outputs):
            raise InputError(
                f"the oracle returned {len(found)} references, and the launch gives {len(outputs)} outputs "
                f"({', '.join(by_name)}); return one for each, None for one that is not judged, "
                "or a dict by names of outputs"
            )
        given = {output.name: leaf for output, (_, leaf) in zip(outputs, found, strict=True)}
    references = {name: _reference(by_name[name], leaf) for name, leaf in given.items() if leaf is not None}
    if not references:
        raise InputError(f"the oracle judges no output; return a reference of {next(iter(by_name))}")
    return references


def _named(told: Mapping[Any, Any], outputs: Sequence[str]) -> dict[str, Any]:
    """Return the references of a dict by outputs; InputError for other names.

    Its keys are names of outputs, of which it may leave some out; or it is built as the mapping that the launch
    returns, and complete.
    """
    named = {name: leaf for key, value in told.items() for name, leaf in leaves(str(key), value)}
    if named.keys() <= set(outputs):
        return named
    built = dict(leaves("return", told))
    if built.keys() == set(outputs):
        return built
    given = built if built.keys() & set(outputs) else named
    unknown = [name for name in given if name not in outputs]
    missing = [name for name in outputs if name not in given] if given is built else []
    near = get_close_matches(unknown[0], missing or outputs, 1) if unknown else []
    problems = [
        *([f"names {', '.join(map(repr, unknown))}, which the launch does not give"] if unknown else []),
        *([f"lacks {', '.join(map(repr, missing))}"] if missing else []),
    ]
    raise InputError(
        f"the dict that the oracle returned {', and '.join(problems)}; "
        f"{f'did you mean {near[0]!r}? ' if near else ''}outputs: {', '.join(outputs)}"
    )


def deviations(outputs: list[Output], references: References, tolerance: Tolerance | None) -> list[Deviation]:
    """Return how far each output that has a reference is from it."""
    with plain_allocations(), torch.no_grad():
        return [
            deviation(output, references[output.name], tolerance) for output in outputs if output.name in references
        ]


def _reference(output: Output, given: Any) -> Tensor:
    kind = dtype_of(output)
    if not isinstance(given, Tensor) and type(given) not in _KINDS:
        raise InputError(f"the oracle's reference of {output.name} is a {type(given).__name__}; return a tensor")
    leaf = given if isinstance(given, Tensor) else torch.tensor(given, dtype=_KINDS[type(given)])
    if kind is None:
        raise InputError(f"the oracle cannot judge {output.name}, a {output.dtype}; return None in its place")
    wanted = "complex" if kind.is_complex else "floating" if is_float(kind) else "whole"
    if wanted != ("complex" if leaf.is_complex() else "floating" if leaf.is_floating_point() else "whole"):
        names = {"complex": "a complex", "floating": "a floating", "whole": "an integer or bool"}
        raise InputError(
            f"the oracle's reference of {output.name} is {str(leaf.dtype).removeprefix('torch.')} and the output "
            f"{output.dtype}; return {names[wanted]} dtype"
        )
    if tuple(leaf.shape) != output.shape:
        raise InputError(
            f"the oracle's reference of {output.name} has shape {tuple(leaf.shape)}, the output {output.shape}; "
            "return the shape of the output"
        )
    return leaf.detach()
