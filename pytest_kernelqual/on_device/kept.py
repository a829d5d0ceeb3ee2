"""What was found out before, kept in Triton's cache beside the code that it was found of."""

import contextlib
from functools import cache
from hashlib import sha256
from pathlib import Path

from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.runtime.cache import get_cache_manager, triton_key


class Kept:
    """One small file in Triton's cache, if it is there; a cache that cannot be read or written holds nothing."""

    def __init__(self, name: str, *of: object) -> None:
        """Name its place.

        Args:
            name: Of the file, without `.json`.
            of: All that it follows from, Triton and its environment variables aside; equal ones print alike.
        """
        told = (triton_key(), sorted(get_cache_invalidating_env_vars().items()), of)
        self._name = f"kernelqual-{name}.json"
        self._key = sha256(repr(told).encode()).hexdigest()

    def read(self) -> bytes | None:
        """Return what was kept; None where nothing was."""
        with contextlib.suppress(OSError, RuntimeError):
            path = get_cache_manager(self._key).get_file(self._name)
            return None if path is None else Path(path).read_bytes()
        return None

    def write(self, content: bytes) -> None:
        """Keep something; where there is no room, it has to be found out anew."""
        with contextlib.suppress(OSError, RuntimeError):
            get_cache_manager(self._key).put(content, self._name)


@cache
def source_digest(*files: Path) -> str:
    """Return a digest of source files: another version of what finds something out may find out another thing."""
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
