"""Candidate qualification and regression gating of GPU kernels as a pytest plugin.

The names below are all that a spec file needs, and `replay`, which scripts of `kernelqual repro` call.
They are looked up on first use, so that loading the plugin imports none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kernelqual.errors import DeclarationError, KernelqualError
    from pytest_kernelqual.model.case import Case
    from pytest_kernelqual.model.config import Config, grid
    from pytest_kernelqual.model.spec import KernelSpec, Seeded, kernel_spec
    from pytest_kernelqual.model.tolerance import Tolerance
    from pytest_kernelqual.processes.replaying import replay

__all__ = [
    "Case",
    "Config",
    "DeclarationError",
    "KernelSpec",
    "KernelqualError",
    "Seeded",
    "Tolerance",
    "grid",
    "kernel_spec",
    "replay",
]

_HOMES = {
    "Case": "model.case",
    "Config": "model.config",
    "DeclarationError": "errors",
    "KernelSpec": "model.spec",
    "KernelqualError": "errors",
    "Seeded": "model.spec",
    "Tolerance": "model.tolerance",
    "grid": "model.config",
    "kernel_spec": "model.spec",
    "replay": "processes.replaying",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
