"""The JSON document: what its digest covers, what it holds, and what reading refuses."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from report_samples import ENVIRONMENT, NODEID, candidate, case, kernel, kernels, mismatching

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.outcome import OUTCOMES
from pytest_kernelqual.model.record import FixedRecord, KernelRecord
from pytest_kernelqual.report.document import build, encode, failing, read, write

SMALL = [kernel(case(candidate(), mismatching()))]


def digest(records: list[KernelRecord]) -> str:
    """Return the digest of a document of `records` alone."""
    return build(records, None, []).digest


def small_with(**changes: Any) -> list[KernelRecord]:
    """Return the small run with its first candidate changed."""
    only = SMALL[0].cases[0]
    first = replace(only.candidates[0], **changes)
    return [replace(SMALL[0], cases=[replace(only, candidates=[first, *only.candidates[1:]])])]


def stored(tmp_path: Path, **changes: Any) -> Path:
    """Write the small document with some top-level values changed."""
    plain = json.loads(encode(build(SMALL, ENVIRONMENT, [NODEID])))
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**plain, **changes}))
    return path


def test_document_counts_what_was_done_and_keeps_declared_order() -> None:
    """Controls count real comparisons; stand-ins and the fixed launch's own config prove nothing."""
    records = [
        kernel(
            case(
                candidate("a"),
                candidate("own", same_as_fixed=True),
                candidate("copy", same_program_as="a"),
                mismatching("b"),
                candidate("c", "not_run", reason="budget"),
            ),
            case(candidate("a"), id_="second"),
            name="zeta",
        ),
        kernel(case(candidate("a")), name="alpha"),
    ]
    document = build(records, ENVIRONMENT, [NODEID])

    assert [each.kernel for each in document.kernels] == ["zeta", "alpha"]
    assert document.controls.compared == 4
    assert document.controls.pairs == 3
    assert document.controls.outcomes == {"qualified": 5, "mismatch": 1, "not_run": 1}
    assert list(document.controls.outcomes) == ["qualified", "mismatch", "not_run"]


def test_document_is_complete_only_without_a_reason_against_it() -> None:
    """What narrowed or ended the run is kept in words."""
    assert build(SMALL, None, []).complete
    narrowed = build(SMALL, None, [], ["-k rms"])
    assert not narrowed.complete
    assert narrowed.incomplete_because == ["-k rms"]


@settings(deadline=None)
@given(st.lists(st.text(max_size=4), max_size=5), st.randoms())
def test_universe_depends_on_the_set_of_node_ids_alone(nodeids: list[str], random: Any) -> None:
    """Collection order and repetition do not matter; one more item does."""
    shuffled = [*nodeids, *nodeids]
    random.shuffle(shuffled)
    assert build([], None, nodeids).universe == build([], None, shuffled).universe
    assert build([], None, nodeids).universe != build([], None, [*nodeids, "one more item"]).universe


def test_failing_document_is_one_with_a_failure_or_without_any_case() -> None:
    """An empty report proves nothing."""
    passed = kernel(case(candidate()))
    assert not failing(build([passed], None, []))
    assert failing(build([], None, []))
    assert failing(build(SMALL, None, []))
    assert failing(build([passed, kernel(name="broken", problem="does not import")], None, []))


@settings(deadline=None)
@given(kernels)
def test_digest_ignores_everything_but_decisions(records: list[KernelRecord]) -> None:
    """Reasons, times, paths, seeds, byte digests, resources, and the order of keys, candidates, cases and kernels."""
    other = [
        replace(
            each,
            nodeid="elsewhere",
            notes=["a note"],
            problem="another text" if each.problem else "",
            cases=[
                replace(
                    one,
                    nodeid="elsewhere",
                    case={"path": "/elsewhere"},
                    key=dict(reversed(one.key.items())),
                    inputs="sha256:00",
                    fixed=FixedRecord(outcome=one.fixed.outcome, reason="other", output="sha256:11", launches=9),
                    candidates=[
                        replace(record, reason="other", detail={}, resources={"registers": 3}, seeds=7, launches=99)
                        for record in reversed(one.candidates)
                    ],
                    duration_s=123.0,
                    restarts=5,
                )
                for one in reversed(each.cases)
            ],
        )
        for each in reversed(records)
    ]
    environment = replace(ENVIRONMENT, seed=99, started_at="2030-01-01T00:00:00Z", duration_s=5.0)
    assert build(records, ENVIRONMENT, ["a"]).digest == build(other, environment, ["b"], ["-k"]).digest


@settings(deadline=None)
@given(kernels.filter(lambda records: any(one.candidates for each in records for one in each.cases)), st.data())
def test_digest_changes_with_every_decision(records: list[KernelRecord], data: st.DataObject) -> None:
    """Another outcome, evidence, candidate, case, key, fixed outcome, problem or kernel is another digest."""
    at_kernel = data.draw(
        st.sampled_from([n for n, each in enumerate(records) if any(c.candidates for c in each.cases)])
    )
    each = records[at_kernel]
    at_case = data.draw(st.sampled_from([n for n, one in enumerate(each.cases) if one.candidates]))
    one = each.cases[at_case]
    record = one.candidates[0]
    outcome = next(outcome for outcome in OUTCOMES if outcome != record.outcome)
    changed_candidates = [
        [replace(record, outcome=outcome), *one.candidates[1:]],
        [replace(record, evidence=None if record.evidence else "interpreted"), *one.candidates[1:]],
        [replace(record, id=record.id + "x"), *one.candidates[1:]],
        one.candidates[1:],
        [*one.candidates, record],
    ]
    fixed = replace(one.fixed, outcome=next(outcome for outcome in OUTCOMES if outcome != one.fixed.outcome))
    changed_cases = [
        *(replace(one, candidates=candidates) for candidates in changed_candidates),
        replace(one, id=one.id + "x"),
        replace(one, key={**one.key, "one more axis": 1}),
        replace(one, fixed=fixed),
    ]

    def with_case(*instead: Any) -> KernelRecord:
        return replace(each, cases=[*each.cases[:at_case], *instead, *each.cases[at_case + 1 :]])

    changed_kernels = [
        *(with_case(instead) for instead in changed_cases),
        with_case(),
        replace(each, kernel=each.kernel + "x"),
        replace(each, problem="" if each.problem else "broken"),
    ]
    before = digest(records)
    for instead in changed_kernels:
        assert digest([*records[:at_kernel], instead, *records[at_kernel + 1 :]]) != before
    assert digest([*records[:at_kernel], *records[at_kernel + 1 :]]) != before


def test_digest_keeps_key_values_of_different_types_apart() -> None:
    """True, 1, 1.0 and "1" are four keys."""
    only = SMALL[0].cases[0]
    values: list[Any] = [True, 1, 1.0, "1", None]
    digests = {digest([replace(SMALL[0], cases=[replace(only, key={"k": value})])]) for value in values}
    assert len(digests) == len(values)


@settings(deadline=None)
@given(kernels, st.lists(st.text(st.characters(), max_size=3), max_size=2))
def test_encoded_document_reads_back_equal(tmp_path_factory: pytest.TempPathFactory, records: Any, why: Any) -> None:
    """Nothing that a record can hold is lost or changed, and the file is plain indented ASCII."""
    document = build(records, ENVIRONMENT, ["a"], why)
    data = encode(document)
    path = tmp_path_factory.getbasetemp() / "round_trip.json"
    write(path, data)

    assert read(path) == document
    assert data.isascii()
    assert data.endswith(b"}\n")
    # The formatter and the slow encoder for lone surrogates agree byte for byte.
    assert data == json.dumps(json.loads(data), indent=2).encode() + b"\n"


def test_encoding_does_not_depend_on_the_order_of_dict_keys() -> None:
    """One run has one text, however its dicts were filled."""
    texts = {encode(build(small_with(config=config), None, [])) for config in ({"a": 1, "b": 2}, {"b": 2, "a": 1})}
    assert len(texts) == 1


def test_float_that_is_not_finite_becomes_text_among_facts() -> None:
    """JSON has no word for it, and one odd fact must not cost the report."""
    records = small_with(detail={"ratio": float("inf"), "list": [float("nan"), 1.5]})
    found = json.loads(encode(build(records, None, [])))["kernels"][0]["cases"][0]["candidates"][0]["detail"]
    assert found == {"ratio": "inf", "list": ["nan", 1.5]}


def test_float_that_is_not_finite_is_refused_where_a_number_belongs() -> None:
    """The message leads to the place."""
    with pytest.raises(DocumentError, match=r"\$\.kernels\[0\]\.cases\[0\]\.candidates\[0\]\.config\.scale is nan"):
        encode(build(small_with(config={"scale": float("nan")}), None, []))


def test_value_without_a_json_form_is_refused() -> None:
    """An object of a foreign library does not become a string by accident."""
    with pytest.raises(DocumentError, match="Encoding objects of type object is unsupported"):
        encode(build(small_with(detail={"x": object()}), None, []))


def test_reading_refuses_another_schema_and_names_both(tmp_path: Path) -> None:
    """A report of another version is not half understood, and it is said what to do."""
    for schema, what in (
        ("kernelqual/qualified-configurations/9", "update pytest-kernelqual"),
        ("kernelqual/qualified-configurations/10000", "update pytest-kernelqual"),
        ("kernelqual/qualified-configurations/0", "run again with this version"),
        ("kernelqual/qualified-configurations/x", "give a qualified-configurations.json of `pytest --kernelqual`"),
        ("kernelqual/plan/1", "give a qualified-configurations.json of `pytest --kernelqual`"),
    ):
        path = stored(tmp_path, schema=schema)
        with pytest.raises(DocumentError) as raised:
            read(path)
        told = f"schema is {schema!r}; this version reads 'kernelqual/qualified-configurations/1': {what}"
        assert str(raised.value) == f"{path}: {told}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"complete": "yes"}, r"Expected `bool`, got `str` at \$\.complete: 'yes'"),
        ({"complete": 1}, r"Expected `bool`, got `int` at \$\.complete: 1"),
        ({"controls": {"compared": "64"}}, r"Expected `int`, got `str` at \$\.controls\.compared: '64'"),
        ({"controls": {"outcomes": {"fault": True}}}, r"Expected `int`, got `bool` at \$\.controls\.outcomes.*True"),
        ({"kernels": [{"kernel": "a", "nodeid": 5}]}, r"Expected `str`, got `int` at \$\.kernels\[0\]\.nodeid: 5"),
        ({"kernels": [{"kernel": "a"}]}, r"missing required field `nodeid` at \$\.kernels\[0\]: \{'kernel': 'a'\}"),
        ({"digest": "sha256:00"}, "digest is 'sha256:00', its records give 'sha256:"),
        ({"kernels": []}, "edited or damaged; run again"),
    ],
)
def test_reading_shows_path_and_value_of_what_is_wrong(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """One type is never taken for another, and records are those that the digest was made of."""
    with pytest.raises(DocumentError, match=message) as raised:
        read(stored(tmp_path, **changes))
    assert "report.json" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": "a", "schema": "b"}', "key 'schema' occurs twice"),
        ('{"a": {"b": 1, "b": 1}}', "key 'b' occurs twice"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
        ('{"a": 1e999}', "number 1e999 overflows"),
        ('{"a": ' + "9" * 5000 + "}", "integer string conversion"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "holds a list"),
        ("", "is empty; give a qualified-configurations.json"),
        ('{"schema"', "is cut off after 9 bytes; copy it again, or run again"),
        ('{"schema"}', "Expecting ':'"),
        ("\ufeff{}", "begins with a byte order mark"),
        ("{}", "schema is None"),
    ],
)
def test_reading_refuses_what_leaves_open_what_it_says(tmp_path: Path, text: str, message: str) -> None:
    """Other readers of the file would each take their own meaning."""
    path = tmp_path / "report.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError, match=message):
        read(path)


def test_reading_refuses_bytes_that_are_no_text(tmp_path: Path) -> None:
    """A binary file given by mistake gets one line."""
    path = tmp_path / "report.json"
    path.write_bytes(b"\x89PNG\xff")
    with pytest.raises(DocumentError, match="not UTF-8 at byte 0"):
        read(path)


@pytest.mark.parametrize("path", ["missing.json", ".", "a\0b"])
def test_reading_names_a_path_that_cannot_be_read(tmp_path: Path, path: str) -> None:
    """Missing, a folder, and no path at all."""
    with pytest.raises(DocumentError, match="cannot read"):
        read(str(tmp_path / path))


def test_unreadable_words_of_a_lone_surrogate_are_refused(tmp_path: Path) -> None:
    """An outcome that no message could even show is still one clear error."""
    plain = msgspec.to_builtins(SMALL[0])
    plain["cases"][0]["fixed"]["outcome"] = "\ud800"
    with pytest.raises(DocumentError, match="lone surrogate"):
        read(stored(tmp_path, kernels=[plain]))
