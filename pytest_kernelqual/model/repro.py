"""What is asked of a device process, and told by it, to write down a failing launch."""

from msgspec import Struct

from pytest_kernelqual.model.config import Scalar


class SaveLaunch(Struct, frozen=True, tag=True, kw_only=True):
    """Write the memory that the first launch of the kernel under test is given to a file; replaces what was open."""

    path: str
    spec: str
    case: str
    profile: str
    seed_index: int
    config: dict[str, Scalar]
    file: str


class LaunchSaved(Struct, frozen=True, tag=True, kw_only=True):
    """Answers `SaveLaunch`."""

    constants: str = ""
    """Python code: assignments that say what is launched, from which module, as production does and forced."""
    launches: int = 0
    """Launches of the kernel in production's call."""
    problem: str = ""
    """Why it cannot be written down; empty where it was."""


class SaveInputs(Struct, frozen=True, tag=True, kw_only=True):
    """Write the inputs of a case to a file; replaces what was open."""

    path: str
    spec: str
    case: str
    profile: str
    seed_index: int
    file: str


class InputsSaved(Struct, frozen=True, tag=True, kw_only=True):
    """Answers `SaveInputs`."""

    problem: str = ""
