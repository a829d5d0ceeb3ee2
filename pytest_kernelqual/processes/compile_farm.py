"""Compile what cases will launch before they are launched, and keep what does not compile."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct, structs

from pytest_kernelqual.errors import DeviceProcessError, KernelqualError, SettingsError
from pytest_kernelqual.model.messages import CompileFailure, Progress, Survey, Surveyed
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.target_record import TargetLaunch
from pytest_kernelqual.processes.device import Device, Limits

# The device process tells several times a second how far it is; each compilation has its own limit there.
_SILENCE_S = 60.0


class CaseName(NamedTuple):
    """Where a case is declared."""

    path: str
    spec: str
    case: str


class Totals(Struct):
    """What a run's farm has done so far."""

    launches: int = 0
    cached: int = 0
    compiled: int = 0
    failed: int = 0
    not_surveyed: int = 0
    took_s: float = 0.0

    @classmethod
    def together(cls, found: Iterable["Totals"]) -> "Totals":
        """Return the totals of processes that worked side by side: the longest time, and the sum of all else."""
        made = cls()
        for one in found:
            for name in ("launches", "cached", "compiled", "failed", "not_surveyed"):
                setattr(made, name, getattr(made, name) + getattr(one, name))
            made.took_s = max(made.took_s, one.took_s)
        return made

    def told(self) -> str:
        """Return a line about it; empty where there was nothing to do."""
        if not (self.launches or self.not_surveyed):
            return ""
        return (
            f"compiled before launches: {self.compiled} code objects in {self.took_s:.1f} s, {self.cached} cached, "
            f"{self.failed} failed, {self.not_surveyed} launches or cases could not be looked at"
        )


class CompileFarm:
    """Ask a device process to survey and compile; a run without a farm compiles at each launch."""

    def __init__(self, device: Device, settings: Settings) -> None:
        """Keep whom to ask; `settings.compile_workers` of 0 asks nobody."""
        self._device = device
        self._settings = settings
        self._seen: set[CaseName] = set()
        self._failures: dict[tuple[CaseName, str | None], CompileFailure] = {}
        self._launched: dict[CaseName, list[TargetLaunch]] = {}
        self.refused: dict[str, str] = {}
        """By file, why none of its cases could be surveyed."""
        self._hopeless = ""
        """Why no process starts."""
        self.totals = Totals()

    def prepare(self, cases: Sequence[CaseName], on_progress: Callable[[int, int], None]) -> None:
        """Have what cases of one file will launch compiled, each case once; never raises.

        Args:
            cases: Cases of one spec file.
            on_progress: Told how many code objects are compiled, and of how many.
        """
        new = [case for case in dict.fromkeys(cases) if case not in self._seen]
        self._seen.update(new)
        if not new or not self._settings.compile_workers:
            return
        if self._hopeless:
            self.refused[new[0].path] = self._hopeless
            return
        limits = Limits(
            inputs_s=self._settings.start_timeout_s, compile_s=_SILENCE_S, run_s=self._settings.run_timeout_s
        )

        def progress(told: Progress) -> None:
            if told.compiled is not None:
                on_progress(*told.compiled)

        began = time.monotonic()
        try:
            if self._device.hello().kind == "interpreter":
                return
            request = Survey(path=new[0].path, cases=[(case.spec, case.case) for case in new])
            reply = self._device.ask(request, limits, progress)
        except DeviceProcessError as death:  # the next request finds a new process, and launches compile for themselves
            self.totals.not_surveyed += len(new)
            self.refused[new[0].path] = death.cause
            return
        except KernelqualError as error:  # whoever launches is told too
            self.refused[new[0].path] = str(error)
            self._hopeless = str(error) if isinstance(error, SettingsError) else ""
            return
        if isinstance(reply, Surveyed):
            self._take(new[0].path, reply)
            self.totals.took_s += time.monotonic() - began

    def failure(self, case: CaseName, config: str | None) -> CompileFailure | None:
        """Return why a candidate, by its id, or the fixed launch (None) does not compile, if that is known."""
        return self._failures.get((case, config))

    def launched(self, case: CaseName) -> list[TargetLaunch]:
        """Return what a case's launches would meet on a target, the fixed launch first; empty if nothing is known."""
        return self._launched.get(case, [])

    def _take(self, path: str, reply: Surveyed) -> None:
        for failure in reply.failures:
            self._failures[CaseName(path, failure.spec, failure.case), failure.config] = failure
        for one in reply.launched:
            self._launched.setdefault(CaseName(path, one.spec, one.case), []).append(one.launch)
        self.totals = structs.replace(
            self.totals,
            launches=self.totals.launches + reply.launches,
            cached=self.totals.cached + reply.cached,
            compiled=self.totals.compiled + reply.compiled,
            failed=self.totals.failed + reply.failed,
            not_surveyed=self.totals.not_surveyed + len(reply.not_surveyed),
        )
        if reply.tainted:
            # Something of a launch that computed nothing is kept there, a cached table say.
            self._device.close()
