"""What cases were seen to launch before."""

from collections.abc import Sequence

import msgspec
import torch
from triton.runtime.driver import driver

from pytest_kernelqual.launch import Specialisation, is_cached
from pytest_kernelqual.on_device.kept import Kept

_Names = list[tuple[str, str]]


class KeptLaunches:
    """The code objects that the launches of one case need."""

    def __init__(self, space: str, *case: object) -> None:
        """Find its place.

        Args:
            space: Selection-space token, which follows candidates, kernel and launch code.
            case: What tells the case from others.
        """
        self._kept = Kept("launches", space, case, driver.active.get_current_target(), torch.__version__)

    def read(self) -> list[str] | None:
        """Return the key of each launch's code object; None where they are not known, or one is not cached now."""
        try:
            names = msgspec.json.decode(self._kept.read() or b"", type=_Names)
        except ValueError:
            return None
        return [key for key, _ in names] if all(is_cached(*name) for name in dict.fromkeys(names)) else None

    def write(self, needed: Sequence[Specialisation]) -> None:
        """Keep what each launch needs."""
        names: _Names = [(one.key, one.source.name) for one in needed]
        self._kept.write(msgspec.json.encode(names))
