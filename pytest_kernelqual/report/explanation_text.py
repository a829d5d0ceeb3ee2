"""The story of one candidate as plain ASCII text."""

from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

import msgspec

from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.record import CommittedRecord, Mismatch
from pytest_kernelqual.report.code_differences import StageDifference
from pytest_kernelqual.report.explanation import Explanation
from pytest_kernelqual.report.phrases import and_more, clean, counted
from pytest_kernelqual.report.rows import committed_text

_LONGEST = 600
_MOST_CASES = 12
_MOST_LOG_LINES = 40
# Told in sections of their own.
_TOLD = {"mismatches", "input_sets_differing", "input_set", "launches_differing", "output", "log", "traceback"}


def explanation_text(told: Explanation, most_lines: int = 0) -> str:
    """Return the story, without a final newline; of each difference of code so many lines, 0 for all."""
    record = told.candidate
    head = f"{told.kernel}[{told.case_id}] {record.id}: {record.outcome}"
    sections = {
        head: [record.reason] if record.reason else [],
        "where": _where(told),
        "config": _config(told),
        "resources": _resources(told),
        "evidence": _evidence(told),
        "bytes": [*_bytes(told)],
        "inputs": [*_inputs(told)],
        "detail": [*_detail(record.detail)],
        "times": [line for row in told.committed for line in _times(row)] or ["not timed in this report"],
        "other cases": [*_elsewhere(told)],
        "targets": [_target(one.target, one.launch.outcome, one.launch.reason) for one in told.targets],
        "code": [*_code(told, most_lines)],
    }
    return "\n".join(
        "\n".join([clean(title, _LONGEST), *(f"  {_line(line)}" for line in lines)])
        for title, lines in sections.items()
        if lines or title == head
    )


def _where(told: Explanation) -> list[str]:
    lines = [f"item: {told.nodeid}", f"case: {_values(told.case)}"]
    lines += [f"key: {_values(told.key)}"] if told.key else []
    lines += [f"ran as: {_values(told.ran_as)}"] if told.ran_as else []
    lines += [f"a search: bad candidates are only recorded ({told.screen})"] if told.screen else []
    environment = told.environment
    if environment is not None:
        device = environment.device
        lines.append(f"device: {device.name} ({device.kind}, {device.architecture})")
        lines.append(f"versions: torch {environment.torch}, triton {environment.triton}, python {environment.python}")
    return [*lines, *told.notes]


def _config(told: Explanation) -> list[str]:
    fixed, own = told.fixed.config, told.candidate.config
    lines = []
    for name in [*own, *(name for name in fixed if name not in own)]:
        if name not in own:
            lines.append(f"{name} = {fixed[name]!a}, as production has it")
        elif name not in fixed:
            lines.append(f"{name} = {own[name]!a} (the fixed launch's is not known)")
        else:
            other = "" if repr(fixed[name]) == repr(own[name]) else f" (fixed launch: {fixed[name]!a})"
            lines.append(f"{name} = {own[name]!a}{other}")
    if told.candidate.same_as_fixed:
        lines.append("this is the fixed launch's own config: its equality proves nothing")
    if told.candidate.same_program_as is not None:
        lines.append(f"not run itself: the run of {told.candidate.same_program_as} stands for it")
    return lines


def _resources(told: Explanation) -> list[str]:
    record = told.candidate
    lines = []
    for name, value in record.resources.items():
        limit = told.limits.get(name)
        lines.append(f"{name}: {value}" + (f" of {limit} ({value / limit:.0%})" if limit else ""))
    missing = [f"{name} {limit}" for name, limit in told.limits.items() if name not in record.resources]
    lines += [f"limits of the device: {', '.join(missing)}"] if missing else []
    if record.outcome == "out_of_resources":
        detail = record.detail
        lines.append(f"{detail.get('kind')}: required {detail.get('required')}, limit {detail.get('limit')}")
    return lines or ["not known"]


def _evidence(told: Explanation) -> list[str]:
    record = told.candidate
    lines = [f"{record.evidence or 'none'}" + (f", where {record.lacks} is required" if record.lacks else "")]
    lines += told.not_stronger
    lines += (
        [f"arithmetic order: {record.order} (fixed launch: {told.fixed.order or 'unknown'})"] if record.order else []
    )
    if record.batch_invariant is not None or record.batch_note:
        known = {True: "yes", False: "NO", None: "not known"}[record.batch_invariant]
        lines.append(f"rows alone and in the batch have the same bytes: {known}; {record.batch_note}".rstrip("; "))
    return lines


def _bytes(told: Explanation) -> Iterator[str]:
    detail = told.candidate.detail
    try:
        found = msgspec.convert(detail.get("mismatches") or [], list[Mismatch])
    except (msgspec.ValidationError, UnicodeError):
        yield f"the report's facts cannot be read: {detail.get('mismatches')!a}"
        return
    for item in found:
        yield f"{item.output}: {item.differing} of {counted(item.elements, 'element')} differ ({item.diagnosis})"
        for name in Mismatch.__struct_fields__:
            value = getattr(item, name)
            if name not in ("output", "elements", "differing", "diagnosis") and value not in (None, "", 0):
                yield f"  {name}: {list(value) if isinstance(value, tuple) else value}"
    if "launches_differing" in detail:
        yield f"launches with other bytes than the fixed launch: {detail['launches_differing']}"
    if told.fixed.output:
        yield f"output of the fixed launch: {told.fixed.output}"
    if "output" in detail:
        yield f"its own output: {detail['output']}"
    if told.same_output:
        yield f"the same bytes have: {and_more(told.same_output, _MOST_CASES)}"


def _inputs(told: Explanation) -> Iterator[str]:
    record, seed = told.candidate, told.environment.seed if told.environment is not None else "unknown"
    yield (
        f"seed {seed}; tried on {counted(record.seeds, 'input set')} of {len(told.input_sets)}, "
        f"{counted(record.launches, 'launch', 'launches')}"
    )
    differing = record.detail.get("input_sets_differing") or []
    for one in told.input_sets:
        name = f"{one.profile}/{one.seed}"
        state = f"put aside: {one.set_aside}" if one.set_aside else "other bytes" if name in differing else ""
        yield f"{name}: {state}" if state else name
    if "input_set" in record.detail:
        yield f"told of above: {record.detail['input_set']}"
    if record.provocation:
        yield f"provocation of each launch: {', '.join(one or 'none' for one in record.provocation)}"


def _detail(detail: Mapping[str, Any]) -> Iterator[str]:
    for name, value in detail.items():
        if name not in _TOLD:
            yield from (f"{name}: {one}" for one in (value if isinstance(value, list) else [value]))
    for name in ("traceback", "log"):
        lines = str(detail.get(name, "")).splitlines()
        if lines:
            yield f"{name}:" + (f" (its last {_MOST_LOG_LINES} lines)" if len(lines) > _MOST_LOG_LINES else "")
            yield from (f"  {line}" for line in lines[-_MOST_LOG_LINES:])


def _times(row: CommittedRecord) -> Iterator[str]:
    yield from committed_text(row).splitlines()
    if row.speed_up is not None:
        yield f"  {row.speed_up:.4f} times the fixed launch's speed; timed {row.timed_at or 'at an unknown time'}"
    for gate in row.gates:
        if gate.processes:
            estimates = ", ".join(f"{(one - 1) * 100:+.2f} %" for one in gate.processes)
            yield f"  {gate.gate}: by process: {estimates}"
        for process, rounds in enumerate([gate.rounds, *gate.confirmations], 1):
            where = f" in process {process}" if gate.confirmations else ""
            for arm, places in ((gate.a, (0, 3)), (gate.b, (1, 2))):
                samples = [one[place] for one in rounds for place in places if place < len(one)]
                if samples:
                    yield (
                        f"  {gate.gate}: {arm}{where}: {len(samples)} samples, least {min(samples):.3f}, "
                        f"median {median(samples):.3f}, most {max(samples):.3f} us"
                    )


def _elsewhere(told: Explanation) -> Iterator[str]:
    counts = Counter(one.outcome for one in told.elsewhere)
    if counts:
        yield ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    others = [one for one in told.elsewhere if one.outcome != "qualified"]
    for one in others[:_MOST_CASES]:
        yield f"{one.case}: {one.outcome}: {one.reason}".rstrip(": ")
    if len(others) > _MOST_CASES:
        yield f"and {len(others) - _MOST_CASES} more"


def _target(target: str, outcome: str, reason: str) -> str:
    return f"{target}: {outcome}: {reason}".rstrip(": ")


def _code(told: Explanation, most_lines: int) -> Iterator[str]:
    code = told.code
    if code is None:
        yield from [f"not compared: {told.no_code}"] if told.no_code else []
        return
    yield f"compiled for {code.target}, nothing launched; fixed launch -> candidate"
    yield f"arithmetic order: {code.order}"
    yield from (f"  {reason}" for reason in code.order_reasons)
    yield from (f"launched by one of the two alone: {kernel}" for kernel in code.unpaired)
    for number, launch in enumerate(code.launches, 1):
        same = " (the same code)" if all(_same(stage) for stage in launch.stages) else ""
        yield f"launch {number}: {launch.kernel}: grid {_change(*launch.grid)}{same}"
        resources = ", ".join(f"{name} {_change(*values)}" for name, values in launch.resources.items())
        yield f"  {resources}"
        for stage in launch.stages if not same else ():
            yield from (f"  {line}" for line in _stage(stage, most_lines))


def _stage(stage: StageDifference, most_lines: int) -> Iterator[str]:
    if _same(stage):
        yield f"{stage.stage}: the same"
        return
    yield f"{stage.stage}: {stage.removed} lines of the fixed launch's are gone, {stage.added} are new"
    if stage.operations:
        yield "  " + ", ".join(f"{name} {_change(*counts)}" for name, counts in stage.operations.items())
    shown = stage.diff[: most_lines or None]
    yield from (f"  {line}" for line in shown)
    if len(shown) < len(stage.diff):
        yield f"  and {counted(len(stage.diff) - len(shown), 'more line')}; --lines 0 shows all"


def _same(stage: StageDifference) -> bool:
    return not (stage.removed or stage.added or stage.diff)


def _change(old: object, new: object) -> str:
    return f"{old}" if old == new else f"{old} -> {new}"


def _values(values: Mapping[str, Any]) -> str:
    return Config(values).id if values else "none"


def _line(text: str) -> str:
    """Return text as one clean line that keeps its indentation."""
    bare = text.lstrip(" ")
    return " " * (len(text) - len(bare)) + clean(bare, _LONGEST)
