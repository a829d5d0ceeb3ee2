"""What workers of a run read in the journals of others, while these are being written."""

from pathlib import Path

from report_samples import candidate, case

from pytest_kernelqual.report.finished_cases import FinishedCases
from pytest_kernelqual.report.journal import Journal

FIRST = case(candidate("a"), id_="first", nodeid="first")
SECOND = case(candidate("b"), id_="second", nodeid="second")


def test_cases_are_found_as_soon_as_their_line_is_whole(tmp_path: Path) -> None:
    """Whatever else is there: other records, what a crash has left torn, no folder at all."""
    folder = tmp_path / "session"
    finished = FinishedCases(folder)
    assert finished.find("first") is None
    with Journal(folder, "gw0") as journal:
        journal.candidate("first", FIRST.candidates[0])
        assert finished.find("first") is None
        journal.case("first", FIRST)
        assert finished.find("first") == FIRST
    with Journal(folder, "gw1") as journal:
        journal.case("second", SECOND)
    path = folder / "gw1.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert finished.find("second") is None
    path.write_bytes(b"\xff torn\n" + whole)
    assert FinishedCases(folder).find("second") == SECOND
    path.write_bytes(whole[:-20])
    with path.open("ab") as file:
        assert finished.find("second") is None
        file.write(whole[-20:])
    assert finished.find("second") == SECOND
    assert finished.find("third") is None
