"""Committed files as text: a fixed canonical form, and one reason for each kind of nonsense."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from committed_samples import (
    NEWER,
    OTHER_SPACE,
    SPACE,
    TOOLCHAIN,
    file,
    many_rows,
    null_row,
    row,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kernelqual.committed.membership import Declared, missing_keys, row_refusals
from pytest_kernelqual.committed.reading import MAX_BYTES, MAX_DEPTH, decode
from pytest_kernelqual.committed.refusal import CODES, Refusal
from pytest_kernelqual.committed.schema import CommittedFile, Row, canonical, encode
from pytest_kernelqual.model.config import Config

SAMPLE = file(row({"cols": 64, "dtype": "float16"}), null_row({"cols": 1024, "dtype": "float16"}))


def read(data: bytes) -> CommittedFile:
    """Return a file that must be accepted."""
    found = decode(data, "f.json")
    assert isinstance(found, CommittedFile), str(found)
    return found


def refusal(data: bytes) -> Refusal:
    """Return the refusal of a file that must not be accepted."""
    found = decode(data, "f.json")
    assert isinstance(found, Refusal)
    assert found.code in CODES
    assert found.path == "f.json"
    assert found.text
    assert "\n" not in str(found)
    assert len(str(found)) < 500
    return found


def edited(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the sample after an edit of its plain values."""
    plain = json.loads(encode(SAMPLE))
    change(plain)
    return json.dumps(plain).encode()


@settings(deadline=None)
@given(many_rows)
def test_round_trip_and_canonical_form(rows: list[Row]) -> None:
    """What is written is read as it was, and written again as the same bytes."""
    data = encode(file(*rows))
    found = read(data)
    assert encode(found) == data
    assert found == canonical(found)
    assert {encode(file(item)) for item in found.rows} == {encode(file(item)) for item in rows}


@settings(deadline=None)
@given(many_rows, st.randoms(use_true_random=False))
def test_order_of_rows_and_names_is_not_written(rows: list[Row], random: Any) -> None:
    """The same rows in any order are the same bytes, and so is the same JSON laid out otherwise."""
    data = encode(file(*rows))
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert encode(file(*shuffled)) == data
    names = list(json.loads(data).items())
    random.shuffle(names)
    assert encode(read(json.dumps(dict(names)).encode())) == data


def test_numeric_keys_are_in_numeric_order() -> None:
    """64 stands before 1024; the file ends with one newline."""
    data = encode(file(*(row({"cols": cols}) for cols in (1024, 64, 512, 4096))))
    assert [item.key["cols"] for item in read(data).rows] == [64, 512, 1024, 4096]
    assert data.endswith(b"}\n")
    assert not data.endswith(b"\n\n")


def test_rows_keep_what_they_were_measured_with() -> None:
    """A row repeats the file's space and toolchain only where its own differ."""
    older = row({"cols": 1}, space=OTHER_SPACE, toolchain=NEWER)
    found = read(encode(file(older, row({"cols": 2}, space=SPACE, toolchain=TOOLCHAIN))))
    assert [found.space_of(item) for item in found.rows] == [OTHER_SPACE, SPACE]
    assert [found.toolchain_of(item) for item in found.rows] == [NEWER, TOOLCHAIN]
    assert found.rows[1].space is None
    assert found.rows[1].toolchain is None


def first(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    """Return an edit of a field of the first row."""
    return lambda plain: plain["rows"][0].__setitem__(name, value)


def every(name: str, value: float) -> Callable[[dict[str, Any]], object]:
    """Return an edit of a field of the first row, and of its samples alike."""
    return lambda plain: plain["rows"][0].update({name: value, f"{name}_samples": [value]})


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        (lambda plain: plain.update(schema="kernelqual/committed-configs/2"), "wrong_schema", "another version"),
        (lambda plain: plain.update(schema="kernelqual/qualified-configurations/1"), "wrong_schema", "another file"),
        (lambda plain: plain.pop("schema"), "wrong_schema", "None"),
        (lambda plain: plain.update(schema=["x"]), "wrong_schema", "['x']"),
        (lambda plain: plain.update(extra=1), "wrong_type", "extra"),
        (lambda plain: plain.update({"x\ny": 1}), "wrong_type", "x\\ny"),
        (lambda plain: plain.update({"x" * 100_000: 1}), "wrong_type", "..."),
        (lambda plain: plain.pop("device"), "wrong_type", "device"),
        (lambda plain: plain["device"].update(compute_units="132"), "wrong_type", "'132'"),
        (lambda plain: plain["device"].update(compute_units=True), "wrong_type", "True"),
        (lambda plain: plain["device"].update(compute_units=132.5), "wrong_type", "132.5"),
        (lambda plain: plain["device"].update(compute_units=1 << 70), "wrong_type", "compute_units"),
        (lambda plain: plain["device"].update(uuid="x"), "wrong_type", "uuid"),
        (lambda plain: plain["toolchain"].update(triton=3.6), "wrong_type", "3.6"),
        (lambda plain: plain.update(kernel=""), "wrong_type", "kernel"),
        (lambda plain: plain.update(kernel="\ud800"), "wrong_type", "surrogate"),
        (lambda plain: plain.update(space="sha256:1"), "wrong_type", "space"),
        (lambda plain: plain.update(space=SPACE + "\n"), "wrong_type", "space"),
        (lambda plain: plain.update(rows={}), "wrong_type", "rows"),
        (lambda plain: plain.update(rows=[None]), "wrong_type", "rows[0]"),
        (first("speed_up", "1.25"), "wrong_type", "'1.25'"),
        (lambda plain: plain["rows"][0].update(speed_up=True), "wrong_type", "True"),
        (first("speed_up", 0), "wrong_type", "speed_up"),
        (first("speed_up", 10**400), "wrong_type", "speed_up"),
        (first("speed_up", 1.26), "wrong_type", "not the smallest"),
        (every("speed_up", 1e-300), "wrong_type", "speed_up 1e-300 is not what times_us say, 1.25"),
        (every("speed_up", 2.0), "wrong_type", "speed_up 2.0 is not what times_us say, 1.25"),
        (first("times_us", {"fixed": 1e-300, "committed": 1e300}), "wrong_type", "is not what times_us say, 0"),
        (first("times_us", {"fixed": 1e300, "committed": 1e-300}), "wrong_type", "is not what times_us say, inf"),
        (first("speed_up", None), "wrong_type", "speed_up is missing"),
        (first("speed_up_samples", []), "wrong_type", "not the smallest"),
        (first("times_us", None), "wrong_type", "times_us is missing"),
        (first("times_us", {"fixed": 1.0}), "wrong_type", "times_us.committed is missing"),
        (first("evidence", "trust me"), "wrong_type", "trust me"),
        (first("evidence", "interpreted"), "wrong_type", "device"),
        (first("output", "sha256:A"), "wrong_type", "output"),
        (first("cache", "hot"), "wrong_type", "hot"),
        (first("measured_at", "31.1.2026"), "wrong_type", "measured_at"),
        (first("measured_at", "2026-13-31"), "wrong_type", "measured_at"),
        (first("note", "x" * 100_000), "wrong_type", "note"),
        (first("config", {}), "wrong_type", "config {}"),
        (first("config", {"num_warps": [8]}), "wrong_type", "num_warps"),
        (first("config", {"num_warps": 1 << 64}), "wrong_type", "64 bits"),
        (first("config", {"../BLOCK": 1}), "wrong_type", "identifier"),
        (first("config", None), "wrong_type", "config is null"),
        (first("key", {"cols": {"a": 1}}), "wrong_type", "cols"),
        (first("key", {"cols": [1, [{"a": 1}]]}), "wrong_type", "cols"),
        (first("key", {"cols": "x" * 1000}), "wrong_type", "1000 characters"),
        (first("key", {"64": 1}), "wrong_type", "identifier"),
        (first("key", {"cols": 1024, "dtype": "float16"}), "duplicate_key", "row 2 repeats key"),
        (lambda plain: plain["rows"][1].update(note=" "), "wrong_type", "note is empty"),
        (lambda plain: plain["rows"][1].update(speed_up=1.1), "wrong_type", "belongs to a config"),
    ],
)
def test_edits_are_refused_with_one_reason(change: Callable[[dict[str, Any]], object], code: str, told: str) -> None:
    """Each message shows what was seen."""
    found = refusal(edited(change))
    assert (found.code, told in found.text) == (code, True), str(found)


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        ("1.25", "NaN", "not_json", "NaN"),
        ("1.25", "-Infinity", "not_json", "-Infinity"),
        ("1.25", "1e999", "not_json", "1e999"),
        ("1.25", "9" * 5000, "not_json", "digit"),
        ("1.25", "1.25,", "not_json", "line"),
        ('"kernel":', '"kernel": "x", "kernel":', "duplicate_key", "'kernel' occurs twice"),
        ('"cols": 64', '"cols": 64, "cols": 128', "duplicate_key", "'cols' occurs twice"),
        ('  "kernel"', '<<<<<<< HEAD\n  "kernel"', "merge_conflict", "line 8"),
        ('  "kernel"', '=======\r\n  "kernel"', "merge_conflict", "======="),
        ('  "kernel"', '>>>>>>> topic\n  "kernel"', "merge_conflict", ">>>>>>>"),
        ('"rms_norm_fwd"', "[" * 100_000, "too_deep", str(MAX_DEPTH)),
        ('"rms_norm_fwd"', "[" * 20 + "]" * 20, "too_deep", str(MAX_DEPTH)),
        ('"rms_norm_fwd"', f'"{" " * MAX_BYTES}"', "too_large", str(MAX_BYTES)),
    ],
)
def test_texts_are_refused_with_one_reason(old: str, new: str, code: str, told: str) -> None:
    """What no JSON document can say is refused before its fields are looked at."""
    text = encode(SAMPLE).decode()
    assert old in text
    found = refusal(text.replace(old, new).encode())
    assert (found.code, told in found.text) == (code, True), str(found)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n", b"{", b"null", b"[]", b'"x"', b"1", b"\xff\xfe", b"\xef\xbb\xbf{}", b"\0" * 100, b'"' * 100_000,
        b'"' + b"\\" * 1_000_001, b'"' + b"\\u0041" * 600_000, b'{"a":' * 100_000, b"[1]" * 1_000_000,
        b"{" + b",".join(b'"%d":0' % (number // 2) for number in range(400_000)) + b"}",
    ],
)  # fmt: skip
def test_other_bytes_are_refused(data: bytes) -> None:
    """A file that never was one of ours is refused as fast as it is read."""
    assert refusal(data).code in {"not_json", "wrong_schema", "too_deep", "duplicate_key"}


def test_brackets_in_strings_are_no_nesting() -> None:
    """A note may hold what it likes."""
    note = 'fixed "kept" \\ ' + "[{" * 100
    assert read(encode(file(null_row({"cols": 1}, note)))).rows[0].note == note


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value: object) -> list[tuple[Any, Any]]:
    """Return every container and name or index in it."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return [(value, name) for name, _ in pairs] + [place for _, item in pairs for place in places(item)]


@settings(deadline=None)
@given(st.data(), st.sampled_from(["replace", "remove", "add"]), json_values)
def test_any_edit_is_a_file_or_a_refusal(data: st.DataObject, what: str, value: object) -> None:
    """Whatever is put anywhere gives a file that is canonical after all, or one reason; nothing is raised."""
    plain = json.loads(encode(SAMPLE))
    holder, name = data.draw(st.sampled_from(places(plain)))
    if what == "remove":
        del holder[name]
    elif what == "replace" or isinstance(holder, list):
        holder[name] = value
    else:
        holder[data.draw(st.text(max_size=8))] = value
    found = decode(json.dumps(plain).encode(), "f.json")
    if isinstance(found, CommittedFile):
        assert encode(read(encode(found))) == encode(found)
    else:
        assert "\n" not in str(found)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 40), st.binary(max_size=20))
def test_any_cut_or_splice_is_a_file_or_a_refusal(at: int, length: int, inserted: bytes) -> None:
    """A torn or overwritten file is never a traceback, and a cut one is never accepted."""
    whole = encode(SAMPLE)
    at %= len(whole)
    found = decode(whole[:at] + inserted + whole[at + length :], "f.json")
    assert isinstance(found, CommittedFile | Refusal)
    assert at >= len(whole) - 2 or refusal(whole[:at])


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    """Random bytes are no committed configs."""
    refusal(data)


CANDIDATES = [Config(num_warps=8), Config(num_warps=4, fast=True)]
DECLARED = Declared(space=SPACE, candidates=CANDIDATES, keys=[{"cols": 64, "shape": (1, 2)}, {"cols": 128}])


@pytest.mark.parametrize(
    ("made", "codes"),
    [
        (row({"cols": 128}), []),
        (row({"shape": (1, 2), "cols": 64}, {"fast": True, "num_warps": 4}), []),
        (null_row({"cols": 128}), []),
        (row({"cols": 256}), ["unknown_key"]),
        (row({"cols": "128"}), ["wrong_type"]),
        (row({"cols": 128.0}), ["wrong_type"]),
        (row({"cols": 128}, {"num_warps": 16}), ["unknown_candidate"]),
        (row({"cols": 128}, {"num_warps": 4, "fast": "True"}), ["wrong_type"]),
        (row({"cols": 128}, {"num_warps": 4, "fast": 1}), ["wrong_type"]),
        (row({"cols": 128}, {"num_warps": 4}), ["unknown_candidate"]),
        (row({"cols": 128}, space=OTHER_SPACE), ["other_space"]),
        (row({"cols": 256}, {"num_warps": 16}, space=OTHER_SPACE), ["unknown_key", "other_space", "unknown_candidate"]),
    ],
)
def test_rows_are_held_against_what_is_declared(made: Row, codes: list[str]) -> None:
    """A row of another key, space or candidate set has its reasons, and `"8"` and `true` are told as what they are."""
    found = row_refusals(read(encode(file(made))), "f.json", DECLARED)
    assert [item.code for item in found] == codes
    assert all(item.key == read(encode(file(made))).rows[0].key for item in found)


def test_missing_keys_are_told_once() -> None:
    """Every declared key without a row is missing, honest nulls are not."""
    doubled = replace(DECLARED, keys=[*DECLARED.keys, *DECLARED.keys])
    assert missing_keys(None, doubled) == list(DECLARED.keys)
    assert missing_keys(file(null_row({"cols": 128})), doubled) == [{"cols": 64, "shape": (1, 2)}]


def test_zeros_are_kept_apart() -> None:
    """0, 0.0, -0.0 and false are four keys."""
    found = read(encode(file(*(row({"x": zero}) for zero in (0, 0.0, -0.0, False)))))
    assert sorted(repr(item.key["x"]) for item in found.rows) == ["-0.0", "0", "0.0", "False"]
