"""Runs in which every text is hostile: to Markdown, HTML, workflow commands, terminals and JSON."""

from typing import Any, get_args

from hypothesis import strategies as st

from pytest_kernelqual.model.outcome import EVIDENCE, OUTCOMES
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CaseRecord,
    CommittedRecord,
    CommittedVerdict,
    DeviceDescriptor,
    Environment,
    FixedRecord,
    InputSetRecord,
    KernelRecord,
    ProductionBytes,
)
from pytest_kernelqual.model.target_record import CompiledCase, CompiledRows, TargetLaunch, TargetRecord

SIGN = "Zq9"
"""Begins every hostile text, so that it can be found again."""

FRAGMENTS = (
    *("`", "``", "```", "\n```\n", "~~~", "|", "\\", "\\|", "*", "__", "#", "\n# ", "- ", "> ", "$", "$`", "    "),
    *("<script>alert(1)</script>", "</details>", "<summary>", "<!--", "-->", "<img src=x onerror=y>", "&lt;", "&#64;"),
    *(
        "@octocat",
        "@org/team",
        "#1",
        "GH-1",
        "https://evil.example",
        "www.evil.example",
        "[x](javascript:y)",
        "![x](y)",
    ),
    *(
        "\n::error::x",
        "::stop-commands::x",
        "%0A",
        "%",
        ":",
        ",",
        "\r",
        "\r\n",
        "\n",
        "\t",
        "\0",
        "\x1b[31m",
        "\x1b]0;x\x07",
    ),
    *(
        "\u202e",
        "\u2066",
        "\u200b",
        "\ufeff",
        "\u2028",
        "\x85",
        "\ud800",
        "\U0001f600",
        "\u00e9",
        '"',
        "'",
        "</script>",
        "]]>",
    ),
)

texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(st.characters(), max_size=3), max_size=4).map(
    lambda parts: SIGN + "".join(parts)
)
_some = st.lists(texts, max_size=2)
_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
_facts = st.dictionaries(texts, _scalars, max_size=2)
_outcomes = st.sampled_from(OUTCOMES)

candidates = st.builds(
    CandidateRecord,
    id=texts,
    config=_facts,
    outcome=_outcomes,
    reason=texts,
    evidence=st.sampled_from([None, *EVIDENCE]),
    detail=_facts,
    fragile=_some,
    batch_invariant=st.none() | st.booleans(),
    batch_note=texts,
)
_launches = st.builds(
    TargetLaunch, id=texts, outcome=st.sampled_from(["fits", "out_of_resources", "unknown"]), reason=texts
)
_targets = st.lists(
    st.builds(TargetRecord, target=texts, shared_limit_bytes=st.just(1024), launches=st.lists(_launches, max_size=1)),
    max_size=1,
)
cases = st.builds(
    CaseRecord,
    id=texts,
    case=_facts,
    key=_facts,
    nodeid=texts,
    fixed=st.builds(FixedRecord, outcome=_outcomes, reason=texts, config=_facts, output=st.none() | texts),
    candidates=st.lists(candidates, max_size=2),
    targets=_targets,
    input_sets=st.lists(st.builds(InputSetRecord, profile=texts, seed=st.just(0), set_aside=texts), max_size=1),
    dead_axes=_some,
    passed=st.booleans(),
    failures=_some,
)
compiled_rows = st.builds(
    CompiledRows,
    kernel=texts,
    nodeid=texts,
    device=texts,
    target=texts,
    cases=st.lists(st.builds(CompiledCase, id=texts, key=_facts, targets=_targets), max_size=1),
)
rows = st.builds(
    CommittedRecord,
    device=texts,
    key=_facts,
    nodeid=texts,
    file=texts,
    line=st.integers(0, 9),
    config=st.none() | _facts,
    verdict=st.sampled_from(get_args(CommittedVerdict)),
    production=st.sampled_from(get_args(ProductionBytes)),
    reasons=_some,
    passed=st.booleans(),
)
kernels = st.builds(
    KernelRecord,
    kernel=texts,
    nodeid=texts,
    line=st.integers(0, 9),
    screen=st.none() | texts,
    notes=_some,
    cases=st.lists(cases, max_size=2),
    committed=st.lists(rows, max_size=1),
    problem=st.just("") | texts,
)
environments = st.none() | st.builds(
    Environment,
    device=st.builds(DeviceDescriptor, kind=st.sampled_from(["cuda", "interpreter"]), name=texts, architecture=texts),
    driver=texts,
    torch=texts,
    triton=texts,
    python=texts,
    provocation=texts,
    profiles=_some,
)
reasons: Any = _some
