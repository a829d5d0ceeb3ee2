"""How the end of a device process is told: as an outcome, with its log, and on how many attempts."""

import re
from typing import Any, TypeVar

from msgspec import structs

from pytest_kernelqual.errors import DeviceProcessError
from pytest_kernelqual.model.messages import Opened, Tried
from pytest_kernelqual.model.outcome import Outcome
from pytest_kernelqual.processes.device import STARTING

# Thread and memory addresses differ from run to run, and reports of equal runs are equal.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")

_Reply = TypeVar("_Reply", Opened, Tried)


def told(death: DeviceProcessError) -> tuple[Outcome, str, dict[str, Any]]:
    """Return the outcome, reason and detail of a device process that ended or did not answer."""
    if death.phase == STARTING:  # no kernel's fault
        return "not_run", f"the device process did not start: {death.cause}", {"log": death.log}
    outcome: Outcome = "timeout" if death.timed_out else "fault"
    where = f" in phase {death.phase}" if not death.timed_out else ""
    return outcome, f"{death.cause}{where}", with_log({}, death.log)


def with_log(detail: dict[str, Any], log: str) -> dict[str, Any]:
    """Return facts with the log of a process that ended, the same for equal runs."""
    return {**detail, "log": _ADDRESS.sub("0x...", log)} if log else detail


def counted(reply: _Reply, attempts: str) -> _Reply:
    """Return a fault or timeout with the number of attempts; anything else as it is."""
    if reply.outcome not in ("fault", "timeout"):
        return reply
    finished = reply.launches
    reason = f"{reply.reason} ({attempts} attempts, after {finished} finished launches)"
    return structs.replace(
        reply, reason=reason, detail={**reply.detail, "attempts": attempts, "launches_finished": finished}
    )
