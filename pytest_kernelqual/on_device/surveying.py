"""The survey: dry runs find out what cases would launch, and all of it is compiled in parallel before any launch."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs
from triton.runtime.driver import driver

from pytest_kernelqual.judge.dead_axes import Launched, dead_axes
from pytest_kernelqual.launch import DryRun, Specialisation, classify, kernel_function
from pytest_kernelqual.launch.targets import grid_problem
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import CompiledFor, CompileFailure, Surveyed
from pytest_kernelqual.model.outcome import Outcome, TargetOutcome
from pytest_kernelqual.model.target_record import TargetLaunch
from pytest_kernelqual.model.targets import find_target
from pytest_kernelqual.on_device.code_facts import CodeFacts, known_facts
from pytest_kernelqual.on_device.compile_worker import Ending, Job, fitted
from pytest_kernelqual.on_device.compiling import OnCompiled, compile_all
from pytest_kernelqual.on_device.failed import LaunchFailed
from pytest_kernelqual.on_device.kept_launches import KeptLaunches
from pytest_kernelqual.on_device.layouts import PLAIN
from pytest_kernelqual.on_device.qualify import OpenCase
from pytest_kernelqual.on_device.target_evidence import Sketch, evidence, program, sketched

_GIB = 1 << 30
_OUTCOMES: dict[Outcome | None, TargetOutcome] = {
    "compile_error": "compile_error",
    "out_of_resources": "out_of_resources",
    "timeout": "timeout",
    "unsupported": "unsupported",
}


class _Launched(NamedTuple):
    """One launch of a case, and the code objects of the kernel under test that it needs."""

    spec: str
    case: str
    config: Config | None
    keys: list[str]
    otherwise: TargetLaunch
    """What is told of it where it needs none, or where those that it needs tell only a part."""
    whole: bool = True
    """What it launches is known to its end."""
    refused: str = ""
    """Why the driver would refuse one of the launches; empty where it would not."""
    sketch: Sketch | None = None
    """For targets: what tells it from the fixed launch besides code."""


class CompileSurvey:
    """Look at cases one by one, then compile what they would launch."""

    def __init__(self, *, workers: int, memory_gib: float, target: str = "", ordered: bool = False) -> None:
        """Keep how to compile, for which target, if for one, and whether arithmetic orders are to be compared there."""
        self._ordered = ordered
        self._target = find_target(target) if target else None
        self._workers = workers
        self._memory_bytes = int(memory_gib * _GIB)
        self._began = time.time()
        self._jobs: dict[str, Job] = {}
        self._cached: dict[str, Ending] = {}
        self._launched: list[_Launched] = []
        self._launches = 0
        self._needed: list[Specialisation] = []
        self._looked_at: list[tuple[KeptLaunches, list[Specialisation]]] = []
        self._not_surveyed: list[str] = []
        self._tainted = False
        self._fatal = False

    def look(self, case: OpenCase, candidates: Sequence[Config], limit_s: float, *, space: str) -> None:
        """Dry-run the fixed launch and all candidates of a case; what goes wrong is left to the launches.

        Args:
            case: The case.
            candidates: Its candidates.
            limit_s: Of each compilation.
            space: Selection-space token. On a device, nothing is looked at where that was done before and all of it is
                compiled; whatever is overlooked that way the launch compiles.
        """
        if self._fatal:
            return
        named = (case.spec.name, case.case.id, case.executor.exposure)
        kept = KeptLaunches(space, *named) if self._target is None else None
        known = kept.read() if kept is not None else None
        if known:
            self._launches += len(known)
            self._cached |= dict.fromkeys(known, Ending(compiled=True))
            return
        self._needed = []
        unknown = len(self._not_surveyed)
        before = {id(buffer) for buffer in case.executor.memory.survivors()}
        configs = [None, *candidates]
        try:
            case.executor.build()
            while configs:
                self._look(case, configs[0], limit_s)
                del configs[0]
        except LaunchFailed as failed:
            self._fatal = failed.fatal
            self._note(case, configs, failed.reason)
        except Exception as error:  # noqa: BLE001 - the launches will tell
            self._note(case, configs, f"{type(error).__name__}: {error}")
        if kept is not None and len(self._not_surveyed) == unknown:
            self._looked_at.append((kept, self._needed))
        if not self._fatal:
            self._tainted |= any(id(buffer) not in before for buffer in case.close())

    def _note(self, case: OpenCase, configs: Sequence[Config | None], reason: str) -> None:
        """Note that nothing is known of these launches."""
        place = f"{case.spec.name}[{case.case.id}]"
        self._not_surveyed.append(f"{place}: {reason}")
        for config in configs:
            self._add(case, config, [], TargetLaunch(id=_id(config), outcome="unknown", reason=reason))

    def _look(self, case: OpenCase, config: Config | None, limit_s: float) -> None:
        excluded = case.excluded(config) if config is not None else ""
        if excluded:
            self._add(case, config, [], TargetLaunch(id=_id(config), outcome="unsupported", reason=excluded))
            return
        run, failed, sketch = self._dry_run(case, config)
        if failed is not None and failed.fatal:
            raise failed
        outcome: TargetOutcome = "unknown"
        reason = "the kernel was not launched" if failed is None else failed.reason
        refused = None if failed is None or failed.__cause__ is None else classify(failed.__cause__, None)
        if refused is not None and refused[0] in ("unsupported", "compile_error"):  # as it would be on a device
            outcome = refused[0]
        elif failed is not None:
            self._not_surveyed.append(f"{case.spec.name}[{case.case.id}] {_id(config)}: {reason}")
        whole = failed is None or run.ended
        del failed  # its frames hold tensors
        kernel = None if case.spec.kernel is None else kernel_function(case.spec.kernel)
        own = []
        grids = []
        for launch in run.launches:
            self._need(launch.specialisation, limit_s)
            if kernel is None or launch.jit.fn is kernel:  # without a kernel, the config is one of all that is launched
                own.append(launch.specialisation.key)
                grids.append(launch.grid)
        told = TargetLaunch(id=_id(config), outcome=outcome, reason=reason)
        problems = [] if self._target is None else [grid_problem(self._target, grid) for grid in grids]
        problem = next(filter(None, problems), "")
        self._add(case, config, own, told, whole=whole, refused=problem, sketch=sketch)
        self._launches += len(run.launches)
        self._tainted |= run.retained() > 0

    def _dry_run(self, case: OpenCase, config: Config | None) -> tuple[DryRun, LaunchFailed | None, Sketch | None]:
        """Run dry, on a target with a trace of the calls, where they can be traced."""
        executor = case.executor
        # A launch that takes the config may do with it what no trace shows.
        if self._target is not None and not executor.takes_config:
            trace = executor.trace()
            run, failed = executor.dry_run(config, trace)
            if not trace.unknown:
                return run, failed, sketched(run, trace, executor.lasting) if failed is None else None
        return *executor.dry_run(config), None

    def _add(
        self,
        case: OpenCase,
        config: Config | None,
        keys: list[str],
        otherwise: TargetLaunch,
        *,
        whole: bool = True,
        refused: str = "",
        sketch: Sketch | None = None,
    ) -> None:
        if case.executor.exposure == PLAIN:
            named = (case.spec.name, case.case.id, config)
            self._launched.append(_Launched(*named, keys, otherwise, whole, refused, sketch))

    def _need(self, specialisation: Specialisation, limit_s: float) -> None:
        key = specialisation.key
        self._needed.append(specialisation)
        if key in self._cached or key in self._jobs:
            return
        facts = known_facts(key, ordered=self._ordered) if self._target is not None else None
        if not specialisation.cached() or (self._target is not None and facts is None):
            self._jobs[key] = Job(specialisation, limit_s, self._target, ordered=self._ordered)
        elif self._target is not None and facts is not None:
            self._cached[key] = fitted(self._target, facts)
        else:
            self._cached[key] = Ending(compiled=True)

    def compile(self, on_compiled: OnCompiled) -> Surveyed:
        """Compile what is not cached, and return what does not compile."""
        endings = self._cached
        if self._jobs and not self._fatal:
            endings |= self._compiled(list(self._jobs.values()), on_compiled)
            # What compiles, and does not lower with one stage, costs its order only.
            again = [job._replace(ordered=False) for job in self._jobs.values() if self._lacks_order_only(job, endings)]
            endings |= self._compiled(again, on_compiled)
        if self._target is None:  # a device on which candidates are compared
            new = [job for key, job in self._jobs.items() if _is_compiled(endings, key)]
            # Apart from the code, which compiles whatever becomes of these.
            self._compiled([*_launchers(new), *(job._replace(ordered=True) for job in new)], on_compiled)
        for kept, needed in self._looked_at:
            if all(_is_compiled(endings, specialisation.key) for specialisation in needed):
                kept.write(needed)
        compiled = sum(endings[key].compiled for key in self._jobs if key in endings)
        return Surveyed(
            failures=list(self._failures(endings)),
            launches=self._launches,
            cached=len(endings.keys() - self._jobs.keys()),
            compiled=compiled,
            failed=len(self._jobs) - compiled,
            launched=[] if self._target is None else list(self._on_target(endings)),
            not_surveyed=self._not_surveyed,
            tainted=self._tainted,
            fatal=self._fatal,
        )

    def _compiled(self, jobs: list[Job], on_compiled: OnCompiled) -> dict[str, Ending]:
        return compile_all(
            jobs,
            workers=self._workers,
            memory_bytes=self._memory_bytes,
            since=self._began,
            on_compiled=on_compiled,
        )

    def _lacks_order_only(self, job: Job, endings: dict[str, Ending]) -> bool:
        return self._ordered and not _is_compiled(endings, job.specialisation.key) and job.specialisation.cached()

    def _on_target(self, endings: dict[str, Ending]) -> Iterator[CompiledFor]:
        facts = {key: ending.facts for key, ending in endings.items() if ending.facts is not None}
        fixed: dict[tuple[str, str], Sketch | None] = {}
        for launched in self._launched:
            ended = [endings[key] for key in launched.keys if key in endings]
            told = launched.otherwise
            if launched.config is None:
                fixed[launched.spec, launched.case] = launched.sketch
            if ended and (launched.whole or launched.refused or not all(map(_can_launch, ended))):
                taken = [ending.facts.resources for ending in ended if ending.facts is not None]
                names = sorted({name for one in taken for name in one})
                worst = next((one for one in ended if not _can_launch(one)), Ending(compiled=True))
                told = TargetLaunch(
                    id=told.id,
                    outcome="fits" if _can_launch(worst) else _OUTCOMES.get(worst.outcome, "unknown"),
                    reason=worst.reason,
                    resources={name: max(one.get(name, 0) for one in taken) for name in names},
                )
                if told.outcome == "fits" and launched.refused:
                    told = structs.replace(told, outcome="launch_error", reason=launched.refused)
                if told.outcome == "fits" and launched.config is not None:
                    of_fixed = fixed.get((launched.spec, launched.case))
                    told = structs.replace(told, evidence=evidence(of_fixed, launched.sketch, facts))
            dead = [] if launched.config is not None else self._dead_axes(launched, facts)
            yield CompiledFor(spec=launched.spec, case=launched.case, launch=told, dead_axes=dead)

    def _dead_axes(self, of: _Launched, facts: Mapping[str, CodeFacts]) -> list[str]:
        """Return the parameters of a case's candidates that change nothing."""
        found = []
        for one in self._launched:
            if (one.spec, one.case) == (of.spec, of.case) and one.config is not None:
                told = program(one.sketch, facts)
                found.append(Launched(one.config, (told,) if told else (), ran=bool(one.keys)))
        return dead_axes(found)

    def _failures(self, endings: dict[str, Ending]) -> Iterator[CompileFailure]:
        for launched in self._launched:
            ended = (endings[key] for key in launched.keys if key in endings)
            failed = next((ending for ending in ended if ending.outcome is not None), None)
            if failed is not None and failed.outcome is not None:
                yield CompileFailure(
                    spec=launched.spec,
                    case=launched.case,
                    config=None if launched.config is None else launched.config.id,
                    outcome=failed.outcome,
                    reason=failed.reason,
                    detail=failed.detail,
                )


def _launchers(jobs: Sequence[Job]) -> Iterator[Job]:
    """Yield a job for each signature, which makes what launches of that signature share."""
    make = getattr(driver.active, "launcher_cls", None) if jobs else None
    if make is not None:
        first = {tuple(job.specialisation.signature.values()): job for job in reversed(jobs)}
        yield from (job._replace(launcher=make) for job in first.values())


def _is_compiled(endings: dict[str, Ending], key: str) -> bool:
    return key in endings and endings[key].compiled


def _can_launch(ending: Ending) -> bool:
    return ending.compiled and ending.outcome is None


def _id(config: Config | None) -> str:
    return "fixed" if config is None else config.id
