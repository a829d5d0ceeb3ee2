"""State of a device around samples."""

from msgspec import Struct, field


class Clocks(Struct, frozen=True, kw_only=True):
    """State of the device when samples begin or have ended; 0 and empty where the driver does not tell."""

    sm_mhz: int
    throttled: list[str] = field(default_factory=list)
    foreign_processes: int = 0
    problem: str = ""
    """Why nothing could be read this time, where it could before."""
