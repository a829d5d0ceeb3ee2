"""`kernelqual repro`: a script that shows one failing candidate by itself."""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pytest_kernelqual.commands import candidate
from pytest_kernelqual.commands.asking import ask
from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.exit_status import FAILING, OK, UNUSABLE
from pytest_kernelqual.errors import DocumentError, KernelqualError
from pytest_kernelqual.model.outcome import Outcome
from pytest_kernelqual.model.record import Environment
from pytest_kernelqual.model.repro import InputsSaved, LaunchSaved, SaveInputs, SaveLaunch
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device_process import DeviceProcess
from pytest_kernelqual.processes.scripts import Shown, run_script, sanitize
from pytest_kernelqual.report.choosing import Chosen, Declared, declared
from pytest_kernelqual.report.phrases import clean
from pytest_kernelqual.report.repro_scripts import folder_name, replaying, standalone

SCRIPT = "reproduce.py"

_NOTHING_TO_SHOW: tuple[Outcome, ...] = ("qualified", "unsupported", "not_run", "baseline_suspect")
_LONGEST = 600
_MOST_LINES = 20
_SANITIZER_LIMIT_S = 1800.0


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "repro",
        help="write a script that shows one failing candidate without pytest",
        **described(
            "Write a folder with a script, and with the bytes of its inputs, that runs the fixed launch and one "
            "failing candidate of a report and tells where their bytes differ; then run it. The script needs torch, "
            "triton and the kernel's own module alone where the kernel's first launch shows the fault; else it calls "
            "pytest_kernelqual.replay with the spec. It is written where the kernel can run: on a device of the "
            "report's kind, or under the Triton interpreter.",
            [
                "kernelqual repro qualified-configurations.json --candidate num_warps=8 -o repro",
                "kernelqual repro qualified-configurations.json --candidate num_warps=8 --sanitizer",
            ],
            {
                OK: "written, and the script shows the fault here (or was not run: --no-check)",
                FAILING: "written, and the script does not show the fault here",
                UNUSABLE: "wrong usage, a candidate that does not fail, a spec or device that is not here, "
                "or a folder that cannot be written: nothing is written",
            },
        ),
    )
    candidate.add_arguments(parser)
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", help="a folder that is new or empty (default: one named by the candidate)"
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cuda", "hip", "interpreter"),
        help="where the script runs (default: the kind of the report's device)",
    )
    parser.add_argument("--no-check", dest="check", action="store_false", help="do not run the script")
    parser.add_argument(
        "--sanitizer",
        action="store_true",
        help="run the script under compute-sanitizer (memcheck, racecheck) too, where the machine has it",
    )
    candidate.add_root(parser)
    parser.set_defaults(run=_run)


class _Written(NamedTuple):
    """A script that was written."""

    files: str
    needs: str
    shown: Shown | None
    """None where it was not run."""
    kind: str
    """Of the device."""
    standalone: bool


def _run(options: argparse.Namespace) -> tuple[str, int]:
    report, chosen = candidate.chosen(options)
    record, environment = chosen.candidate, report.environment
    if record.outcome in _NOTHING_TO_SHOW or environment is None:
        raise DocumentError(f"candidate {record.id!a} is {record.outcome}: there is no failure to show")
    where = declared(chosen, Path(options.root))
    folder = Path(options.output if options.output is not None else folder_name(chosen))
    with _new_folder(folder) as made:
        written = _written(chosen, where, environment, made, options)
    lines = [f"{clean(str(folder), _LONGEST)}: {written.files}", f"  needs {written.needs}"]
    shown = written.shown
    if shown is not None:
        lines.append(f"  it {'reproduces' if shown.reproduced else 'does not reproduce'} here ({shown.status}):")
        lines += [f"    {clean(line, _LONGEST)}" for line in shown.text.splitlines()[-_MOST_LINES:]]
    if options.sanitizer:
        lines += [f"  {clean(line, _LONGEST)}" for line in _sanitized(folder, written)]
    return "\n".join(lines) + "\n", OK if shown is None or shown.reproduced else FAILING


def _written(
    chosen: Chosen, where: Declared, environment: Environment, folder: Path, options: argparse.Namespace
) -> _Written:
    """Write the script that needs least and shows the fault."""
    wanted = options.device or environment.device.kind
    settings = Settings(root_dir=str(Path(options.root).resolve()), device=wanted, seed=environment.seed)
    limit_s = settings.start_timeout_s + settings.compile_timeout_s + settings.run_timeout_s
    device = DeviceProcess(settings)
    script = folder / SCRIPT
    given: dict[str, Any] = {
        "path": str(where.path),
        "spec": where.spec,
        "case": chosen.case.id,
        "profile": where.input_set.profile,
        "seed_index": where.input_set.seed,
    }
    try:
        memory = folder / "memory.pt"
        request = SaveLaunch(**given, config=chosen.candidate.config, file=str(memory))
        try:
            saved = ask(device, settings, request, LaunchSaved)
        except KernelqualError as error:  # host code may do to the process what the candidate does, before it launches
            saved = LaunchSaved(problem=str(error))
        why = saved.problem
        if not why and saved.launches > 1 and not options.check:
            why = f"the kernel is launched {saved.launches} times, and which launch shows the fault was not tried"
        if not why:
            script.write_text(standalone(chosen, where, environment, saved.constants), encoding="ascii")
            shown = run_script(script, limit_s) if options.check else None
            if shown is None or shown.reproduced:
                needs, kind = "torch, triton and the kernel's own module", device.hello().kind
                return _Written(f"{SCRIPT}, memory.pt", needs, shown, kind, standalone=True)
            why = "the kernel's first launch by itself does not show the fault"
        memory.unlink(missing_ok=True)
        inputs = ask(device, settings, SaveInputs(**given, file=str(folder / "inputs.pt")), InputsSaved)
        if inputs.problem:
            raise DocumentError(f"the inputs cannot be made: {inputs.problem}")
        kind = device.hello().kind
    finally:
        device.close()
    script.write_text(replaying(chosen, where, environment, kind), encoding="ascii")
    shown = run_script(script, limit_s) if options.check else None
    needs = f"torch, triton, the spec and pytest-kernelqual (without pytest), because {why}"
    return _Written(f"{SCRIPT}, inputs.pt", needs, shown, kind, standalone=False)


def _sanitized(folder: Path, written: _Written) -> list[str]:
    if written.kind != "cuda":
        what = "the Triton interpreter runs no code on a GPU" if written.kind == "interpreter" else "it is NVIDIA's"
        return [f"sanitizer: not run: {what}"]
    arguments = ["--no-guards"] if written.standalone else []
    return sanitize(folder.resolve() / SCRIPT, *arguments, limit_s=_SANITIZER_LIMIT_S)


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Give a folder to fill, which takes its place when the block ends well, and else is gone."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DocumentError(f"{str(folder)!a} is there and not empty; give another folder by --output")
        made = Path(tempfile.mkdtemp(prefix=".kernelqual-repro-", dir=folder.absolute().parent))
    except (OSError, ValueError) as error:
        raise DocumentError(f"cannot write {str(folder)!a}: {error}; give another folder by --output") from error
    try:
        yield made
        made.chmod(0o755)
        made.replace(folder)
    except OSError as error:
        raise DocumentError(f"cannot write {str(folder)!a}: {error}") from error
    except KernelqualError:
        raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
