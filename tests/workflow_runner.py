"""Run the jobs of workflows here as GitHub would: expressions, conditions, bash, outputs, artifacts as folders."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from json import loads
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
ACTION = ROOT / "action.yml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# What a step gets from its machine: Python, nothing else.
_PREPARED = ("actions/checkout@", "actions/setup-python@")
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", flags=re.DOTALL)
_TOKEN = re.compile(r"'(?:[^']|'')*'|[A-Za-z_][\w.-]*(?=\s*\()|[A-Za-z_][\w.-]*|&&|\|\||!=|==|!|[(),]|\d+")
_OPERATORS = {"&&": " and ", "||": " or ", "!": " not "}


def load(path: Path) -> dict[str, Any]:
    """Read a YAML 1.2 file, in which `on` is a name."""
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(path)
    return document


def steps_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the steps of a workflow, or of an action."""
    document = load(path)
    for job in [document["runs"]] if "runs" in document else document["jobs"].values():
        yield from job["steps"]


class Ended(NamedTuple):
    """How a job ended."""

    failed: list[str]
    """Names or commands of the steps that failed."""
    text: str
    """What the steps printed."""
    summary: str
    """What they wrote into the step summary."""
    outputs: dict[str, dict[str, str]]
    """Outputs of the steps that have an id."""


class Runner:
    """One run of workflows in one workspace; artifacts outlive jobs."""

    def __init__(self, workspace: Path, folder: Path, environment: Mapping[str, str]) -> None:
        """Keep where to run, and what the machine's environment holds."""
        self._workspace = workspace
        self._folder = folder
        self._environment = dict(environment)
        self.artifacts = folder / "artifacts"
        self.of_runs: dict[str, Path] = {}
        """Artifacts of other runs, by their ids."""
        self.ran: set[str] = set()
        """Text of each command that was executed."""

    def job(self, workflow: Path, name: str, **contexts: Any) -> Ended:
        """Run one job, for one combination of its matrix, with the contexts given (`github`, `matrix`, ...)."""
        return self._job(contexts).run(load(workflow)["jobs"][name]["steps"])

    def goes_on(self, workflow: Path, name: str, **contexts: Any) -> bool:
        """Tell whether the condition of a job holds."""
        return self._job(contexts).holds(str(load(workflow)["jobs"][name]["if"]))

    def _job(self, contexts: dict[str, Any]) -> "_Job":
        return _Job(self, {"steps": {}, "runner": {"temp": str(self._folder / "temp")}, **contexts})

    def bash(self, command: str, told: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run one command as `shell: bash` does."""
        self.ran.add(command)
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
            cwd=self._workspace,
            env={**self._environment, **told},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )

    def keep(self, name: str, paths: list[str]) -> None:
        """Keep an artifact: the content of one folder, or several from the root of the workspace."""
        kept = self.artifacts / name
        assert not kept.exists(), f"artifact {name} is kept twice"
        for path in paths:
            shutil.copytree(self._workspace / path, kept / path if len(paths) > 1 else kept)

    def fetch(self, given: dict[str, str]) -> None:
        """Fetch an artifact by its name, or all of a pattern, each into a folder of its name."""
        target = self._workspace / given["path"]
        artifacts = self.of_runs[given["run-id"]] if "run-id" in given else self.artifacts
        if "name" in given:
            shutil.copytree(artifacts / given["name"], target, dirs_exist_ok=True, symlinks=True)
            return
        for kept in sorted(artifacts.glob("*")):
            if fnmatch(kept.name, given["pattern"]):
                shutil.copytree(kept, target / kept.name, dirs_exist_ok=True, symlinks=True)


class _Job:
    def __init__(self, runner: Runner, contexts: dict[str, Any]) -> None:
        self._runner = runner
        self._contexts = contexts
        self._failed: list[str] = []
        self._text: list[str] = []
        self._files = runner.artifacts.parent / "files"
        self._files.mkdir(exist_ok=True)
        for name in ("summary", "output"):
            (self._files / name).write_text("")

    def run(self, steps: list[dict[str, Any]]) -> Ended:
        for step in steps:
            # Without a status function a condition means "and nothing has failed".
            condition = str(step.get("if", ""))
            goes_on = not self._failed or "cancelled()" in condition
            if goes_on and (not condition or self.holds(condition)):
                self._step(step)
        outputs = {name: step["outputs"] for name, step in self._contexts["steps"].items()}
        return Ended(self._failed, "".join(self._text), (self._files / "summary").read_text(), outputs)

    def holds(self, condition: str) -> bool:
        return bool(self._value(condition.removeprefix("${{").removesuffix("}}")))

    def _step(self, step: dict[str, Any]) -> None:
        given = {name: self._filled(str(value)) for name, value in step.get("with", {}).items()}
        uses = str(step.get("uses", ""))
        if uses == "./":
            inputs = {name: declared["default"] for name, declared in load(ACTION)["inputs"].items()}
            assert given.keys() <= inputs.keys()
            inner = _Job(self._runner, {**self._contexts, "inputs": {**inputs, **given}})
            ended = inner.run(load(ACTION)["runs"]["steps"])
            self._failed += ended.failed
            self._text.append(ended.text)
        elif uses.startswith("actions/upload-artifact@"):
            self._runner.keep(given["name"], given["path"].split())
        elif uses.startswith("actions/download-artifact@"):
            self._runner.fetch(given)
        elif uses:
            assert uses.startswith(_PREPARED), uses
        elif "pip install" not in step["run"]:
            self._command(step)

    def _command(self, step: dict[str, Any]) -> None:
        told = {name: self._filled(str(value)) for name, value in step.get("env", {}).items()}
        (self._files / "output").write_text("")
        files = {"GITHUB_STEP_SUMMARY": str(self._files / "summary"), "GITHUB_OUTPUT": str(self._files / "output")}
        done = self._runner.bash(step["run"], {"GITHUB_ACTION_PATH": str(ROOT), **files, **told})
        self._text.append(done.stdout)
        if done.returncode:
            self._failed.append(step.get("name", step["run"]))
        if "id" in step:
            lines = (self._files / "output").read_text().splitlines()
            self._contexts["steps"][step["id"]] = {"outputs": dict(line.split("=", 1) for line in lines)}

    def _filled(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: str(self._value(found[1])), text)

    def _value(self, expression: str) -> Any:
        """Evaluate an expression, whose operators and truth are Python's."""
        return eval("".join(map(self._python, _TOKEN.findall(expression))), {}, {"value": self._look_up, **_FUNCTIONS})  # noqa: S307 - of our own files

    def _python(self, token: str) -> str:
        if token in _OPERATORS:
            return _OPERATORS[token]
        return token if token in _FUNCTIONS or not token[0].isalpha() else f"value({token!r})"

    def _look_up(self, name: str) -> Any:
        found: Any = self._contexts
        for part in name.split("."):
            found = found.get(part, "") if isinstance(found, dict) else ""
        return found


_FUNCTIONS = {"cancelled": lambda: False, "fromJSON": loads, "contains": lambda many, one: one in many}
