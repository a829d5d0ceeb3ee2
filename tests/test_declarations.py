"""Declarations that can be judged without torch or triton: one line for whatever value a spec is given."""
# ruff: noqa: ARG001, ARG005 - builders have a signature of their own and need not use it

import enum
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pytest_kernelqual import Case, Config, KernelSpec, Tolerance, grid, kernel_spec
from pytest_kernelqual.model.spec import DECLARED


def error(builder: Any = None, **options: Any) -> str:
    """Return what is wrong with a spec that is right but for these options."""

    def right(case: Any, seeded: Any) -> Callable[[], None]:
        return lambda: None

    given = {"candidates": [Config(A=1)], "cases": [Case(n=1)], **options}
    spec = kernel_spec(**given)(right if builder is None else builder)
    DECLARED.pop(__name__)
    return spec.error or ""


class Text(str, enum.Enum):  # noqa: UP042 - the hostile kind: equal to its text
    """A string that JSON libraries and xdist do not take for one."""

    A = "a"


class Unprintable:
    """An object whose repr raises."""

    def __repr__(self) -> str:
        """Raise."""
        raise ValueError("unprintable")


HOSTILE: dict[str, tuple[Any, str]] = {
    "nan": (float("nan"), "nan is not finite"),
    "infinite": (float("-inf"), "-inf is not finite"),
    "enum": (Text.A, f"is a {__name__}.Text; use a plain bool, int, float, str or None"),
    "numpy float": (np.float64(1.0), "np.float64(1.0) is a numpy.float64"),
    "numpy int": (np.int32(1), "np.int32(1) is a numpy.int32"),
    "array": (np.zeros(3), "array([0., 0., 0.]) is a numpy.ndarray"),
    "int too long to print": (10**6000, "<int of 19932 bits> does not fit 64 bits"),
    "int of 64 bits": (2**63, "9223372036854775808 does not fit 64 bits"),
    "half a surrogate pair": ("\ud800", "'\\ud800' holds half of a surrogate pair"),
    "long text": ("x" * 100_000, "has 100000 characters; use at most 200"),
    "bytes": (b"x", "b'x' is a bytes"),
    "set": ({1}, "{1} is a set"),
    "complex": (1j, "1j is a complex"),
    "no repr": (Unprintable(), f"<Unprintable whose repr raises ValueError> is a {__name__}.Unprintable"),
}


@pytest.mark.parametrize(("value", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_values_are_refused_in_one_short_line(value: Any, message: str) -> None:
    """In an axis, in a tuple, under the interpreter and in a config alike."""
    told = [
        error(cases=[Case(n=value)]),
        error(cases=[Case(n=(1, value))]),
        error(cases=[Case(n=1, interpreter={"n": value})]),
        error(candidates=[Config(A=value)]),
        error(fixed=Config(A=value)),
    ]
    for text in told:
        assert message in text.replace(", which", "")
        assert len(text) < 400
        assert "\n" not in text


@pytest.mark.parametrize("value", [True, 0, -(2**63), 1.5, "a/b::c[d]\n é", "", None, (1, ("a", None))])
def test_plain_values_are_taken(value: Any) -> None:
    """Whatever a node id may make of them."""
    assert error(cases=[Case(n=value)]) == ""
    if not isinstance(value, tuple):
        assert error(candidates=[Config(A=value)]) == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidate": []}, "kernel_spec has no option 'candidate'; did you mean 'candidates'?"),
        ({"zzz": 1}, "kernel_spec has no option 'zzz'; options: batch_axis, batch_invariant, cache, candidates"),
        ({"cases": []}, "cases is empty"),
        ({"cases": 5}, "cases=5 must be a list of Case objects"),
        ({"cases": None}, "cases=None must be a list"),
        ({"cases": Case(n=1)}, "cases=Case(n=1) must be a list"),
        ({"cases": [{"n": 1}]}, "cases holds {'n': 1}; it must be a list of Case objects"),
        ({"cases": [Case(s="a/b"), Case(s="a:b")]}, "two cases have the id 'a_b': Case(s='a/b') and Case(s='a:b')"),
        ({"cases": [Case(n=1), Case(n=1)]}, "two cases have the id 'n1': Case(n=1) occurs twice; remove one"),
        ({"cases": [Case(id=1)]}, "case axis 'id' is a reserved name"),
        ({"cases": [Case(**{"a b": 1})]}, "case axis 'a b' is not an identifier"),
        ({"cases": [Case(n=1, interpreter={"m": 1})]}, "interpreter= names 'm', which is not an axis"),
        ({"cases": [Case(n=1, interpreter=5)]}, "interpreter=5 must name axes"),  # type: ignore[arg-type]
        ({"cases": [Case(**{f"a{i}": "x" * 100 for i in range(9)})]}, "the id of the case would have 908 characters"),
        ({"key": "m"}, "key 'm' is not an axis of case 'n1'; axes: n"),
        ({"cases": [Case(cols=1)], "key": ("col",)}, "did you mean 'cols'?"),
        ({"key": ("n", "n")}, "key names 'n' twice"),
        ({"key": [["n"]]}, "key=[['n']] must be a tuple of names"),
        ({"candidates": []}, "candidates is empty"),
        ({"candidates": grid(A=[])}, "candidates is empty; an axis of grid() without values"),
        ({"candidates": grid()}, "a Config without names would force nothing"),
        ({"candidates": 5}, "candidates=5 must be a list of Config objects"),
        ({"candidates": [{"A": 1}]}, "candidates holds {'A': 1}; it must be a list of Config objects"),
        ({"candidates": [Config(5)]}, "Config(5) is not made of names and values"),  # type: ignore[arg-type]
        ({"candidates": [Config({1: 2})]}, "config name 1 is not an identifier"),  # type: ignore[dict-item]
        ({"candidates": [Config(A=1, B=2), Config(B=2, A=1)]}, "candidate B=2,A=1 occurs twice"),
        ({"fixed": {"A": 1}}, "fixed={'A': 1} must be a Config"),
        ({"grid": (1,)}, "grid=(1,) must be callable"),
        ({"exclude": "x"}, "exclude='x' must be callable"),
        ({"screen": 5}, "screen=5 must be True, False or the reason"),
        ({"screen": " "}, "screen=' ' must be True, False or the reason"),
        ({"seeds": True}, "seeds=True must be a whole number from 1 to 10000"),
        ({"seeds": np.int64(2)}, "seeds=np.int64(2) must be a whole number"),
        ({"repeats": 1}, "repeats=1 must be a whole number from 2"),
        ({"repeats": 10**6000}, "repeats=<int of 19932 bits> must be"),
        ({"run_timeout_s": "5"}, "run_timeout_s='5' must be a number of seconds"),
        ({"compile_timeout_s": float("nan")}, "compile_timeout_s=nan must be a number of seconds"),
        ({"near_best_pct": 0}, "near_best_pct=0 must be a number of percent above 0"),
        ({"decay_pct": "5"}, "decay_pct='5' must be a number of percent above 0"),
        ({"cache": "hot"}, "cache='hot' must be 'cold' or 'warm'"),
        ({"cache": None}, "cache=None must be 'cold' or 'warm'"),
        ({"cache": np.array(["warm"])}, "cache=array(['warm'], dtype='<U4') must be"),
        ({"cache": np.array(["warm", "cold"])}, "cache=array(['warm', 'cold'], dtype='<U4') must be"),
        ({"cache": np.str_("warm")}, "cache=np.str_('warm') must be"),
        ({"tolerance": 1e-3}, "tolerance=0.001 must be a Tolerance(rtol=..., atol=..., ulp=...)"),
        ({"tolerance": Tolerance()}, "tolerance: Tolerance allows nothing"),
        (
            {"tolerance": Tolerance(rtol=-1)},
            "tolerance: Tolerance has rtol=-1; it must be a finite number of at least 0",
        ),
        ({"tolerance": Tolerance(rtol=1)}, "rtol=1, within which zeros are equal to anything; use less than 1"),
        ({"tolerance": Tolerance(atol=float("nan"))}, "Tolerance has atol=nan; it must be a finite number"),
        ({"tolerance": Tolerance(atol=True)}, "Tolerance has atol=True; it must be a finite number"),
        ({"tolerance": Tolerance(ulp=1.5)}, "Tolerance has ulp=1.5; it must be a whole number"),  # type: ignore[arg-type]
        ({"tolerance": Tolerance(ulp=-1)}, "Tolerance has ulp=-1; it must be a whole number from 0"),
        ({"oracle": 5}, "oracle=5 must be callable"),
        ({"oracle_tolerance": Tolerance(ulp=1)}, "oracle_tolerance= needs oracle="),
        (
            {"oracle": print, "oracle_tolerance": Tolerance(rtol=2)},
            "oracle_tolerance: Tolerance has rtol=2, within",
        ),
        (
            {"require_evidence": "interpreted"},
            "require_evidence='interpreted' is no evidence that can be required",
        ),
        ({"require_evidence": ["identical_order"]}, "require_evidence=['identical_order'] is no evidence"),
        ({"require_evidence": np.zeros(2)}, "require_evidence=array([0., 0.]) is no evidence"),
        ({"grid_independent": 5}, "grid_independent=5 must be a tuple of names"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], message: str) -> None:
    """One line each, with the value seen and what to do."""
    told = error(**options)
    assert message in told
    assert "\n" not in told


def returns_none(case: Any, seeded: Any) -> None:
    """Return no launch."""
    return None  # noqa: RET501 - the mistake in question


def ends(case: Any, seeded: Any) -> None:
    """End without a return."""


def yields(case: Any, seeded: Any) -> Iterator[None]:
    """Yield."""
    yield


async def awaits(case: Any, seeded: Any) -> int:
    """Be a coroutine."""
    return 1


async def yields_later(case: Any, seeded: Any) -> Any:
    """Be an asynchronous generator."""
    yield


@pytest.mark.parametrize(
    ("builder", "message"),
    [
        (returns_none, "the builder returns no launch"),
        (ends, "the builder returns no launch"),
        (yields, "the builder is a generator or coroutine"),
        (awaits, "the builder is a generator or coroutine"),
        (yields_later, "the builder is a generator or coroutine"),
        (lambda case: 1, "the builder takes (case); it must take (case, seeded)"),
        (lambda case, seeded, more=1: 1, "the builder takes (case, seeded, more=1)"),
        (lambda case, *, seeded: 1, "the builder takes (case, *, seeded)"),
        (lambda inputs, seeded: 1, "the builder takes (inputs, seeded)"),
        (functools.partial(print), "the builder is functools.partial"),
        (5, "the builder is 5; decorate a function"),
    ],
)
def test_wrong_builders_are_told(builder: Any, message: str) -> None:
    """Before anything is built."""
    if not callable(builder) or isinstance(builder, functools.partial):
        spec = kernel_spec(candidates=[Config(A=1)], cases=[Case(n=1)])(builder)
        assert [kept for kept in DECLARED.pop(__name__) if kept is spec]
        assert message in (spec.error or "")
    else:
        assert message in error(builder)


def test_wrapped_builder_stands_on_its_own_line() -> None:
    """Decorators of the user's own, below ours, do not move it."""

    def quiet(builder: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(builder)
        def wrapper(case: Any, seeded: Any) -> Any:
            return builder(case, seeded)

        return wrapper

    def built(case: Any, seeded: Any) -> Callable[[], None]:
        return lambda: None

    spec = kernel_spec(candidates=[Config(A=1)], cases=[Case(n=1)])(quiet(built))
    DECLARED.pop(__name__)
    assert isinstance(spec, KernelSpec)
    assert (spec.error, spec.line, spec.path) == (None, built.__code__.co_firstlineno, __file__)


def test_ids_of_configs_tell_texts_from_other_values() -> None:
    """Two candidates of one spec never share an id."""
    values = [1, "1", True, "True", None, "None", 1.0, "1.0", "a,B=2", "a", "", "a b", "é", "nan"]
    ids = {Config(A=value).id for value in values}
    assert len(ids) == len(values)
    assert Config(FAULT="none", num_warps=4, PRECISION="tf32x3").id == "FAULT=none,num_warps=4,PRECISION=tf32x3"
    assert all(id_.isascii() and id_.isprintable() for id_ in ids)
