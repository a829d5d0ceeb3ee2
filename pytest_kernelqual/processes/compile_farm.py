"""Compile what cases will launch before they are launched, and keep what does not compile."""

import contextlib
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
        self._dead_axes: dict[CaseName, list[str]] = {}
        self.refused: dict[str, str] = {}
        """By file, why none of its cases could be surveyed."""
        self._hopeless = ""
        """Why no process starts."""
        self.totals = Totals()

    def prepare(self, cases: Sequence[CaseName], on_progress: Callable[[int, int], None]) -> None:
        """Have what cases will launch compiled, each case once; never raises.

        Cases of several files are compiled together, unless that ends the process: then file by file.

        Args:
            cases: The cases.
            on_progress: Told how many code objects are compiled, and of how many.
        """
        files: dict[str, list[CaseName]] = {}
        for case in dict.fromkeys(cases):
            if case not in self._seen:
                files.setdefault(case.path, []).append(case)
        self._seen.update(*files.values())
        if not files or not self._settings.compile_workers:
            return
        surveys = [
            Survey(path=path, cases=[(case.spec, case.case) for case in of_file]) for path, of_file in files.items()
        ]
        if len(surveys) > 1:
            together = structs.replace(surveys[0], beside=surveys[1:])
            with contextlib.suppress(KernelqualError):
                self._survey(together, on_progress)
                return
        for survey in surveys:
            self._prepare_file(survey, on_progress)

    def _prepare_file(self, survey: Survey, on_progress: Callable[[int, int], None]) -> None:
        if self._hopeless:
            self.refused[survey.path] = self._hopeless
            return
        try:
            self._survey(survey, on_progress)
        except DeviceProcessError as death:  # the next request finds a new process, and launches compile for themselves
            self.totals.not_surveyed += len(survey.cases)
            self.refused[survey.path] = death.cause
        except KernelqualError as error:  # whoever launches is told too
            self.refused[survey.path] = str(error)
            self._hopeless = str(error) if isinstance(error, SettingsError) else ""

    def _survey(self, survey: Survey, on_progress: Callable[[int, int], None]) -> None:
        limits = Limits(
            inputs_s=self._settings.start_timeout_s, compile_s=_SILENCE_S, run_s=self._settings.run_timeout_s
        )

        def progress(told: Progress) -> None:
            if told.compiled is not None:
                on_progress(*told.compiled)

        began = time.monotonic()
        if self._device.hello().kind == "interpreter":
            return
        reply = self._device.ask(survey, limits, progress)
        if isinstance(reply, Surveyed):
            self._take(survey, reply)
            self.totals.took_s += time.monotonic() - began

    def failure(self, case: CaseName, config: str | None) -> CompileFailure | None:
        """Return why a candidate, by its id, or the fixed launch (None) does not compile, if that is known."""
        return self._failures.get((case, config))

    def launched(self, case: CaseName) -> list[TargetLaunch]:
        """Return what a case's launches would meet on a target, the fixed launch first; empty if nothing is known."""
        return self._launched.get(case, [])

    def dead_axes(self, case: CaseName) -> list[str]:
        """Return the parameters of a case's candidates that change nothing on a target."""
        return self._dead_axes.get(case, [])

    def _take(self, survey: Survey, reply: Surveyed) -> None:
        # A spec's name occurs once in a run.
        paths = {spec: one.path for one in (survey, *survey.beside) for spec, _ in one.cases}
        for failure in reply.failures:
            self._failures[CaseName(paths[failure.spec], failure.spec, failure.case), failure.config] = failure
        for one in reply.launched:
            case = CaseName(paths[one.spec], one.spec, one.case)
            self._launched.setdefault(case, []).append(one.launch)
            self._dead_axes.setdefault(case, one.dead_axes)
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
