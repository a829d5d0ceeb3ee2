"""Options and ini values: help, precedence, and the one line that each wrong value gets before anything runs."""

import os
import re
from pathlib import Path

import pytest
from scenarios import OPS, run_pytest, write

from pytest_kernelqual.errors import SettingsError
from pytest_kernelqual.hooks.options import read_settings, report_path
from pytest_kernelqual.model.settings import Settings

VALUES = (
    "device",
    "seed",
    "seeds",
    "profiles",
    "repeats",
    "json",
    "run-timeout",
    "compile-timeout",
    "start-timeout",
    "compile-workers",
    "compile-memory",
)
INI_ONLY = ("kernelqual_paths", "kernelqual_files", "kernelqual_fail_on")


def settings(pytester: pytest.Pytester, *arguments: str, ini: str = "") -> Settings:
    """Return the settings of a command line without --kernelqual, which alone would start anything."""
    pytester.makeini(f"[pytest]\n{ini}")
    return read_settings(pytester.parseconfigure(*arguments))


def test_help_has_a_group_of_its_own(pytester: pytest.Pytester) -> None:
    """Every option says its ini twin; every ini value is listed."""
    done = pytester.runpytest_subprocess("--help")
    told = done.stdout.str()
    group = told[told.index("qualification of GPU kernel configs:") :]
    for name in VALUES:
        # Its help ends with the twin, before the next option begins.
        text = re.split(r"\n  -", group.partition(f"--kernelqual-{name}=")[2])[0]
        assert f"(ini: kernelqual_{name.replace('-', '_')})" in " ".join(text.split())
        assert re.search(rf"^  kernelqual_{name.replace('-', '_')} \(string\):", told, re.MULTILINE), name
    assert "--kernelqual-in-process" in group
    for name in INI_ONLY:
        assert re.search(rf"^  {name} \(args\):", told, re.MULTILINE), name


def test_option_wins_over_ini_over_default(pytester: pytest.Pytester) -> None:
    """For every value alike."""
    cores = len(os.sched_getaffinity(0))
    assert settings(pytester) == Settings(root_dir=str(pytester.path), compile_workers=cores)
    ini = "kernelqual_seed = 5\nkernelqual_repeats = 7\nkernelqual_run_timeout = 2.5\nkernelqual_device = interpreter\n"
    found = settings(pytester, "--kernelqual-seed=6", "--kernelqual-seeds=3", ini=ini)
    assert (found.seed, found.seeds, found.repeats, found.run_timeout_s) == (6, 3, 7, 2.5)
    assert found.device == "interpreter"
    assert settings(pytester, "--kernelqual-device=cuda:1", ini=ini).device == "cuda:1"


def test_empty_ini_value_is_one_that_is_not_set(pytester: pytest.Pytester) -> None:
    """An empty option is a mistake, though."""
    assert settings(pytester, ini="kernelqual_seed =\n").seed == 0
    with pytest.raises(SettingsError, match="--kernelqual-seed=''"):
        settings(pytester, "--kernelqual-seed=")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", "-1"), ("seed", "x"), ("seed", "1.5"), ("seed", str(2**63)), ("seed", "9" * 5000),
        ("seeds", "0"), ("seeds", "10001"), ("repeats", "1"), ("repeats", "nan"),
        ("run-timeout", "0"), ("run-timeout", "nan"), ("run-timeout", "inf"), ("run-timeout", "-3"),
        ("compile-timeout", "x"), ("start-timeout", "1e9"),
        ("compile-workers", "-1"), ("compile-workers", "many"), ("compile-memory", "0"), ("compile-memory", "8GiB"),
        ("require-evidence", "identical"), ("require-evidence", "interpreted"), ("require-evidence", ""),
        ("device", "gpu"), ("device", "CUDA"), ("device", "cuda:"), ("device", "cuda:x"), ("device", "interpreter:0"),
    ],
)  # fmt: skip
def test_wrong_value_is_told(pytester: pytest.Pytester, name: str, value: str) -> None:
    """With the value seen and the limit."""
    with pytest.raises(SettingsError, match=r"must be|unknown device|no evidence that can be required") as raised:
        settings(pytester, f"--kernelqual-{name}={value}")
    told = str(raised.value)
    assert told.startswith(f"--kernelqual-{name}='{value[:50]}")
    assert len(told) < 250


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        (
            "tolerance",
            ("nan", "-1", "1e9", "0", "inf", "%", "", "2%%", "1e-400", "two"),
            "must be a number of percent above 0 and at most 100",
        ),
        (
            "budget",
            (
                *("0", "0s", "5 parsecs", "-5s", "nan", "infs", "", "s", "5m", "9h9", "²s", "1.5.2s", "1_0s", "169h"),
                *("1e3s", "٣s", f"{'9' * 5000}s"),
            ),
            "must be a time such as 500ms, 60s, 5min or 2h, above 0 and at most 168h",
        ),
    ],
)
def test_wrong_margin_or_budget_is_told(
    pytester: pytest.Pytester, name: str, values: tuple[str, ...], told: str
) -> None:
    """As every other value is; for a time with units that would do."""
    config = pytester.parseconfigure()
    for value in values:
        setattr(config.option, f"kernelqual_{name}", value)
        with pytest.raises(SettingsError) as raised:
            read_settings(config)
        assert str(raised.value).startswith(f"--kernelqual-{name}='{value[:50]}")
        assert str(raised.value).endswith(told)


def test_margins_and_budgets_take_units(pytester: pytest.Pytester) -> None:
    """With or without a space."""
    config = pytester.parseconfigure()
    for text, seconds in {"500ms": 0.5, "60s": 60, "60": 60, "5 min": 300, "1.5h": 5400, "168h": 604800}.items():
        config.option.kernelqual_budget = text
        assert read_settings(config).budget_s == seconds
    for text, percent in {"2": 2, "0.5%": 0.5, "2 %": 2, "100": 100}.items():
        config.option.kernelqual_tolerance = text
        assert read_settings(config).tolerance_pct == percent


def test_wrong_ini_value_is_told(pytester: pytest.Pytester) -> None:
    """Under its own name."""
    with pytest.raises(SettingsError, match=r"^ini kernelqual_run_timeout='0': must be a number of seconds above 0"):
        settings(pytester, ini="kernelqual_run_timeout = 0")


def test_committed_configs_have_a_folder_of_their_own(pytester: pytest.Pytester) -> None:
    """One that is not there must not look like a project without committed configs; an update makes it."""
    for wrong in (".", "..", "a/..", str(pytester.path), "/"):
        with pytest.raises(SettingsError, match=r"^ini kernelqual_committed names '.*', which is the root folder or"):
            settings(pytester, ini=f"kernelqual_committed = {wrong}")
    ini = "kernelqual_committed = other"
    with pytest.raises(SettingsError, match=r"^ini kernelqual_committed names 'other', which is not there; correct it"):
        settings(pytester, ini=ini)
    assert settings(pytester, "--kernelqual-update", ini=ini).committed_dir == "other"
    pytester.mkdir("other")
    assert settings(pytester, ini=ini).committed_dir == "other"


def test_fail_on_takes_outcomes_alone(pytester: pytest.Pytester) -> None:
    """`qualified` cannot fail."""
    assert settings(pytester, ini="kernelqual_fail_on = timeout not_run").fail_on == ("timeout", "not_run")
    for wrong in ("qualified", "time_out"):
        with pytest.raises(SettingsError, match=f"kernelqual_fail_on names '{wrong}'; outcomes: within_tolerance"):
            settings(pytester, ini=f"kernelqual_fail_on = {wrong}")


def test_profiles_are_names_in_any_form(pytester: pytest.Pytester) -> None:
    """Put in the order in which they run; a name that is none, or that only a spec may use, is told."""
    assert settings(pytester).profiles is None
    ini = "kernelqual_profiles = ties cancelling\n"
    assert settings(pytester, ini=ini).profiles == ("cancelling", "ties")
    assert settings(pytester, "--kernelqual-profiles=one_hot,ties", ini=ini).profiles == ("ties", "one_hot")
    assert settings(pytester, "--kernelqual-profiles=none", ini=ini).profiles == ()
    assert "nonfinite" not in (settings(pytester, "--kernelqual-profiles=all").profiles or ())
    for wrong, told in {
        "tie": "no profile is called 'tie'; did you mean 'ties'",
        "xyz": "no profile is called 'xyz'; use cancelling, ",
        "nonfinite": r"nonfinite is for specs that name it: kernel_spec\(profiles=\[..., 'nonfinite'\]\)",
        "": "names no profile; use none for no further ones",
    }.items():
        with pytest.raises(SettingsError, match=f"^--kernelqual-profiles='{wrong}': {told}"):
            settings(pytester, f"--kernelqual-profiles={wrong}")


def test_report_path_counts_from_the_current_folder_or_the_root(pytester: pytest.Pytester) -> None:
    """The option from where pytest was called, the ini value from the root folder."""
    pytester.makeini("[pytest]\nkernelqual_json = out/report.json\n")
    (pytester.path / "sub").mkdir()
    os.chdir(pytester.path / "sub")
    assert report_path(pytester.parseconfigure()) == pytester.path / "out" / "report.json"
    assert report_path(pytester.parseconfigure("--kernelqual-json=x.json")) == pytester.path / "sub" / "x.json"
    assert report_path(pytester.parseconfigure("--kernelqual-json=/a/x.json")) == Path("/a/x.json")


USAGE_ERRORS = {
    "value": (["--kernelqual-seed=x"], "--kernelqual: --kernelqual-seed='x': must be a whole number from 0 to"),
    "folder": (["--kernelqual-json=missing/x.json"], "there is no folder"),
    "directory": (["--kernelqual-json=kernels"], "it is a folder; give a file name in it"),
    "read-only": (["--kernelqual-json=/proc/version"], "cannot write '/proc/version'"),
    "benchmark": (["--benchmark-only"], "--benchmark-only would skip every qualification item"),
    "setup": (["--setup-only"], "--setup-only would launch nothing"),
    "plan": (["--setup-plan"], "--setup-plan would launch nothing"),
    "path": (["nowhere"], "file or directory not found: nowhere"),
}


@pytest.mark.parametrize("name", USAGE_ERRORS)
def test_usage_error_before_anything_runs(tmp_path: Path, name: str) -> None:
    """Exit status 4, one message, nothing written."""
    arguments, message = USAGE_ERRORS[name]
    write(tmp_path, {"kernels/qual_a.py": "open('imported', 'w')\n", "pytest.ini": "[pytest]\n"})
    ended = run_pytest(tmp_path, *arguments)
    assert ended.status == 4
    assert message in ended.output
    assert "Traceback" not in ended.output
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == ["kernels", "pytest.ini"]


@pytest.mark.parametrize(
    ("ini", "message"),
    [
        ("", "none of kernelqual_paths (kernels committed_configs) exists in"),
        ("kernelqual_paths = kernals src", "ini kernelqual_paths names 'kernals', which is not in"),
    ],
)
def test_default_paths_that_are_not_there(tmp_path: Path, ini: str, message: str) -> None:
    """A misspelled path must not make a run that is silently smaller."""
    write(tmp_path, {"src/qual_a.py": "", "pytest.ini": "[pytest]\n"})
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    ended = run_pytest(tmp_path)
    assert (ended.status, message in ended.output) == (4, True)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_needs_no_kernels(tmp_path: Path, option: str) -> None:
    """Whatever folder it is asked for in."""
    assert run_pytest(tmp_path, option).status == 0


def test_options_reach_the_run(tmp_path: Path) -> None:
    """Seed, input sets and repeats stand in the report, which lies where the option says."""
    spec = """
        from ops import double, double_kernel
        from pytest_kernelqual import Case, grid, kernel_spec

        def spec(**options):
            return kernel_spec(kernel=double_kernel, candidates=grid(BLOCK=[32]), cases=[Case(n=10)], **options)

        @spec()
        def plain(case, seeded):
            x = seeded.normal((case.n,))
            return lambda: double(x)

        @spec(seeds=1, repeats=2)
        def own(case, seeded):
            x = seeded.normal((case.n,))
            return lambda: double(x)
    """
    ini = "[pytest]\nkernelqual_paths = .\nkernelqual_repeats = 4\nkernelqual_seeds = 9\n"
    write(tmp_path, {"ops.py": OPS, "qual_a.py": spec, "pytest.ini": ini})
    ended = run_pytest(tmp_path, "--kernelqual-seed=11", "--kernelqual-seeds=3", "--kernelqual-json=other.json")
    assert ended.status == 0
    (tmp_path / "other.json").rename(tmp_path / "qualified-configurations.json")
    environment = ended.report["environment"]
    assert [environment[name] for name in ("seed", "seeds", "repeats")] == [11, 3, 4]
    effort = {nodeid: (case["candidates"][0]["seeds"], case["candidates"][0]["launches"])
              for nodeid, case in ended.cases.items()}  # fmt: skip
    assert effort == {
        "qual_a.py::plain::test_candidates[n10]": (3, 12),
        "qual_a.py::own::test_candidates[n10]": (1, 2),
    }
