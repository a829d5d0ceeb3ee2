"""Processes that survey and compile for devices that are not there, one for each target."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import structs

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.judge.targets import FIXED
from pytest_kernelqual.model.messages import Describe, Described
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.target_record import TargetLaunch, TargetRecord
from pytest_kernelqual.model.targets import find_target
from pytest_kernelqual.processes.compile_farm import CaseName, CompileFarm
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess


class CompileTargets:
    """Tell what cases would meet on the targets of a run; each process starts when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        """Keep the settings, whose `targets` name the targets."""
        self._start_timeout_s = settings.start_timeout_s
        self._devices: dict[str, DeviceProcess] = {}
        self._farms: dict[str, CompileFarm] = {}
        for name in settings.targets:
            # A target without workers would tell nothing.
            own = structs.replace(
                settings, device=f"target:{name}", compile_workers=settings.compile_workers or 1, visible_device=""
            )
            self._devices[name] = DeviceProcess(own)
            self._farms[name] = CompileFarm(self._devices[name], own)

    def described(self, path: str) -> Described | None:
        """Return what a spec file declares that can be imported for one of the targets, if it can."""
        for device in self._devices.values():
            with suppress(KernelqualError):
                reply = device.ask(Describe(path=path), Limits(self._start_timeout_s, 0, 0))
                if isinstance(reply, Described) and not reply.problem:
                    return reply
        return None

    def records(
        self, case: CaseName, later: Sequence[CaseName], on_progress: Callable[[str, int, int], None]
    ) -> list[TargetRecord]:
        """Return what a case would meet on each target.

        Args:
            case: The case.
            later: Further cases of its file, of which the same will be asked: all are compiled together.
            on_progress: Told the target, how many code objects are compiled, and of how many.
        """
        found = []
        for name, farm in self._farms.items():
            target = find_target(name)
            farm.prepare([case, *later], lambda done, of, name=name: on_progress(name, done, of))  # type: ignore[misc]
            launches = farm.launched(case) or [unknown(farm.refused.get(case.path, ""))]
            found.append(
                TargetRecord(
                    target=target.name,
                    shared_limit_bytes=target.shared_bytes,
                    launches=launches,
                    dead_axes=farm.dead_axes(case),
                )
            )
        return found

    def close(self) -> None:
        """End the processes."""
        for device in self._devices.values():
            device.close()


def unknown(reason: str) -> TargetLaunch:
    """Return what is told of a case of which nothing is known: its process does not start, or cannot import it."""
    lines = reason.strip().splitlines() or ["the process that compiles for it ended"]
    told = f"{lines[0]} {lines[-1].strip()}" if lines[0].endswith("(most recent call last):") else lines[0]
    return TargetLaunch(id=FIXED, outcome="unknown", reason=told)
