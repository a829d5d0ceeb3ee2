"""The log of real launches, and what it proves."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

from pytest_kernelqual.errors import UnprovedLaunchError, UnsupportedConfigError
from pytest_kernelqual.launch.kernels import TUNED_OPTIONS, Signature, is_scalar, launch_options, plain
from pytest_kernelqual.model.config import Config, Scalar

# Warp specialisation adds warps to the metadata; what was asked for stands in the IR.
_NUM_WARPS = re.compile(r'"ttg\.num-warps"\s*=\s*(\d+)')


@dataclass(frozen=True)
class Launch:
    """One real launch of the kernel."""

    config: dict[str, Scalar]
    """Constexpr parameters with plain values, and the launch options really used."""
    grid: tuple[int, ...] | None
    """Programs by axis; None where the launch did not tell."""
    resources: dict[str, int]
    """`shared_bytes`, `num_warps`, `registers`, `spills` where known; empty under the interpreter."""


@dataclass
class Launches:
    """The launches of one kernel inside a block."""

    kernel: str
    config: Config | None
    expected: dict[str, Scalar] = field(default_factory=dict)
    """What each launch must carry: the config, without what only host code reads."""
    launches: list[Launch] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Launches that did not carry the config, one line each."""
    warmups: int = 0
    """Compilations that production asked for without a launch."""
    strays: int = 0
    """Launches that did not go through the kernel object, so that nothing was forced on them."""
    refusal: UnsupportedConfigError | None = None
    """Raised inside the launch; kept because the launch may have caught it."""

    def prove(self) -> None:
        """Check that the kernel was launched, and that every launch carried the config.

        Raises:
            UnsupportedConfigError: A launch was refused, and the error did not get out of it.
            UnprovedLaunchError: There was no launch, one that was not seen, or one with another config.
        """
        if self.refusal is not None:
            raise self.refusal
        if self.strays and self.config:
            raise UnprovedLaunchError(
                f"kernel {self.kernel} was launched otherwise than through its Triton kernel object, "
                f"{self.strays} of {self.strays + len(self.launches)} times (a library's own launch cache?), so "
                f"{self.config.id} cannot be shown to have been used; disable the cache, "
                "or let the launch take the config as its argument"
            )
        if self.problems:
            raise UnprovedLaunchError(self.problems[0])
        if not self.launches and not self.strays:
            compiled = ", only compiled (warmup)" if self.warmups else ""
            raise UnprovedLaunchError(
                f"the kernel {self.kernel} was never launched{compiled}; "
                "check that the launch calls this kernel, and not a copy or another path"
            )

    def add(self, launch: Launch) -> None:
        """Log a launch and note where it differs from what it must carry."""
        self.launches.append(launch)
        different = {
            name: value
            for name, value in self.expected.items()
            if not same_value(launch.config.get(name, _unset(name)), value)
        }
        if different:
            really = {name: launch.config.get(name, _unset(name)) for name in different}
            self.problems.append(
                f"launch {len(self.launches)} of kernel {self.kernel} carried {Config(really).id} "
                f"instead of {Config(different).id}"
            )


def same_value(left: object, right: object) -> bool:
    """Compare two values of a meta-parameter; `True` and `1` differ, and a tensor is never the same."""
    left = plain(left)
    comparable = left is None or isinstance(left, str | Number)
    return comparable and isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def compiled_launch(compiled: Any, jit: Any, found: Signature, grid: Any, expected: Mapping[str, Scalar]) -> Launch:
    """Read a launch from the compiled kernel, whose handles are loaded."""
    metadata = compiled.metadata
    # Integers equal to 1 are compiled in as constants too; only the declared constexprs are meta-parameters.
    constants = {jit.arg_names[path[0]]: plain(v) for path, v in compiled.src.constants.items() if len(path) == 1}
    config = {name: constants[name] for name in found.constexprs if name in constants and is_scalar(constants[name])}
    options = {**dict.fromkeys(TUNED_OPTIONS), **expected}
    for name in options:
        # Also where a parameter has the name: given by position, it is no launch option.
        if hasattr(metadata, name) and name in launch_options():
            config[name] = getattr(metadata, name)
    declared = _NUM_WARPS.search(str(compiled.asm.get("ttgir", "")))
    if declared:
        config["num_warps"] = int(declared.group(1))
    resources = {
        "shared_bytes": getattr(metadata, "shared", None),
        "num_warps": getattr(metadata, "num_warps", None),
        "registers": getattr(compiled, "n_regs", None),
        "spills": getattr(compiled, "n_spills", None),
    }
    return Launch(
        config=_without_defaults(config, expected),
        grid=sizes(grid),
        resources={name: value for name, value in resources.items() if isinstance(value, int)},
    )


def interpreted_launch(
    bound: Mapping[str, Any], keywords: Mapping[str, Any], found: Signature, grid: Any, expected: Mapping[str, Scalar]
) -> Launch:
    """Read a launch from its arguments."""
    config = {name: plain(bound[name]) for name in found.constexprs if name in bound and is_scalar(plain(bound[name]))}
    config |= {
        name: value
        for name, value in keywords.items()
        if name in launch_options() and name not in found.parameters and is_scalar(value)
    }
    return Launch(config=_without_defaults(config, expected), grid=sizes(grid), resources={})


def sizes(grid: Any) -> tuple[int, ...] | None:
    """Return a grid as numbers, or None."""
    return tuple(int(size) for size in grid) if isinstance(grid, tuple | list) else None


def _unset(name: str) -> Any:
    """Return what it means that a launch does not mention `name`."""
    return TUNED_OPTIONS.get(name) if name in launch_options() else "unset"


def _without_defaults(config: dict[str, Scalar], expected: Mapping[str, Scalar]) -> dict[str, Scalar]:
    quiet = {"num_ctas": 1, "maxnreg": None}
    return {k: v for k, v in config.items() if k in expected or k not in quiet or v != quiet[k]}
