"""The folder of a run: where and on what it was measured, and what every run of a program told. Each is written down at once, so
whoever stops a run loses nothing, and a later one goes on."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from comparison import machine

RAW, RUN = "raw.jsonl", "run.json"
# What a run's description calls the signal that ended it early.
INTERRUPTED = "interrupted"
# Others may take so much of the machine; more is a disturbance.
QUIET = 0.1


@dataclass(frozen=True)
class Record:
    experiment: str
    point: str
    # In a turn everybody runs once, one right after the other; a round may have several at each point.
    turn: int
    participant: str
    # As the program itself tells it: without the start of processes.
    seconds: float
    # Processor time that everybody else on the machine took meanwhile, as a share of all.
    others: float
    # What OptiSCI says that its accesses cost on the paper's machine.
    cost_ms: float | None = None

    @property
    def is_steady(self) -> bool:
        return self.others <= QUIET


def expect_the_same(folder: Path, described: dict[str, str]) -> None:
    """Ends the program if the folder has figures of something else."""
    if (folder / RAW).exists() and (reason := machine.mixture(described_in(folder), described)):
        sys.exit(f"papers: {folder} {reason}; choose another folder")


def expect_writable(folder: Path) -> None:
    """Ends the program if nothing can be written there."""
    if reason := machine.unwritable(folder):
        sys.exit(f"papers: {folder} {reason}; choose another folder with --out")


@contextmanager
def being_written(folder: Path) -> Iterator[None]:
    """Ends the program if what is done here cannot write there: a disk becomes full in the course of a run."""
    try:
        yield
    except OSError as error:
        sys.exit(f"papers: {folder} cannot be written to: {error.strerror}; free space, or choose another folder with --out")


def begin(folder: Path, described: dict[str, str]) -> None:
    """Writes down where and on what this run is measured."""
    expect_the_same(folder, described)
    if (folder / RAW).exists():
        before = described_in(folder)
        described = {**before, "command": f"{before['command']}; {described['command']}"}
        described.pop(INTERRUPTED, None)
    with being_written(folder):
        folder.mkdir(parents=True, exist_ok=True)
    _describe(folder, described)


def note(folder: Path, what: str, told: str) -> None:
    """Adds something to what is written down about this run."""
    _describe(folder, {**described_in(folder), what: told})


def _describe(folder: Path, described: dict[str, str]) -> None:
    new = folder / f"{RUN}.new"
    with being_written(folder):
        new.write_text(json.dumps(described, indent=1) + "\n")
        new.replace(folder / RUN)


def described_in(folder: Path) -> dict[str, str]:
    """Where and on what that run was measured. Ends the program if nobody wrote it down."""
    if not (folder / RUN).exists():
        sys.exit(f"papers: {folder} has no {RUN}, so nobody knows what its figures are of")
    return json.loads((folder / RUN).read_text())


def read(folder: Path) -> list[Record]:
    """What earlier runs left there. Ends the program if something of it is broken."""
    raw, records = folder / RAW, []
    for number, line in enumerate(raw.read_text().splitlines() if raw.exists() else [], 1):
        try:
            records.append(Record(**json.loads(line)))
        except (ValueError, TypeError):
            # As whoever is killed while writing it leaves it, or a disk that is full.
            sys.exit(f"papers: line {number} of {raw} is no record of a run: take it away, and start again")
    return records


def add(folder: Path, record: Record) -> None:
    with being_written(folder), (folder / RAW).open("a") as raw:
        raw.write(json.dumps(asdict(record)) + "\n")
