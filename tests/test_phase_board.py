"""What a device process is at, told through memory that its owner shares."""

import subprocess
import sys
import time
from typing import get_args

from pytest_kernelqual.files.phase_board import PhaseBoard, shared_memory
from pytest_kernelqual.model.outcome import Phase

PHASES = get_args(Phase)

# The number of launches tells which phase it must be.
WRITER = """
import sys
from typing import get_args
from pytest_kernelqual.files.phase_board import PhaseBoard
from pytest_kernelqual.model.outcome import Phase

board, phases = PhaseBoard(int(sys.argv[1])), get_args(Phase)
for number in range(20_000):
    board.write(phases[number % len(phases)], number)
"""


def test_nothing_is_told_before_the_first_phase() -> None:
    """A board begins empty."""
    with shared_memory() as memory:
        assert PhaseBoard(memory.fileno()).read() is None


def test_entries_are_whole_while_another_process_writes() -> None:
    """Phase, launches and time belong together, and grow; the last one stays when the writer has gone."""
    with shared_memory() as memory:
        board = PhaseBoard(memory.fileno())
        began_s = time.monotonic()
        command = [sys.executable, "-c", WRITER, str(memory.fileno())]
        with subprocess.Popen(command, pass_fds=[memory.fileno()]) as writer:
            seen = []
            while writer.poll() is None:
                seen.append(board.read())
        read = [told for told in seen if told is not None]
        last = board.read()
    assert len(set(read)) > 1
    assert all(told.phase == PHASES[told.launches % len(PHASES)] for told in read)
    assert read == sorted(read, key=lambda told: (told.launches, told.began_s))
    assert last is not None
    assert (last.launches, last.phase) == (19_999, PHASES[19_999 % len(PHASES)])
    assert began_s <= last.began_s <= time.monotonic()
