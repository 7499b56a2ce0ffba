"""What was measured: a record for each run of a participant, pairs of them, and the file that keeps them.

A pair is a peer's run and the nearest run of DECK in the same round at the same points. It is *steady* if the machine itself, probed around both runs,
was the same: a virtual machine's processors may be moved under it from one moment to the next, and other people's work comes and
goes.
"""

import gzip
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from comparison.measures import Versus
from comparison.participants import Figure
from comparison.ratios import LEAST

# Probes of a pair that are further apart say that the machine changed.
STEADY = 1.3
# A probe over so many nanoseconds says that somebody else had one of the processors.
QUIET = 1000


@dataclass
class Record:
    experiment: str
    round: int
    # What was measured in this run.
    points: tuple[int, ...]
    participant: str
    # The machine before and after, in nanoseconds.
    before: float | None
    after: float | None
    figures: list[Figure]
    failure: str | None
    seconds: float

    def value(self, what: str, at: int) -> float | None:
        """One figure."""
        return next((figure.value for figure in self.figures if (figure.what, figure.at) == (what, at)), None)

    @property
    def probes(self) -> list[float]:
        return [probe for probe in (self.before, self.after) if probe]


def is_steady(*records: Record) -> bool:
    """Whether the machine was the same all the time, as far as anybody knows."""
    probes = [probe for record in records for probe in record.probes]
    return not probes or max(probes) <= min(STEADY * min(probes), QUIET)


def pairs(records: list[Record], experiment: str, peer: str) -> list[tuple[Record, Record]]:
    """DECK's record and the peer's, wherever both came to their end."""
    turns: dict[tuple[int, tuple[int, ...]], list[Record]] = {}
    for record in records:
        if record.experiment == experiment and record.failure is None:
            turns.setdefault((record.round, record.points), []).append(record)
    found = []
    for turn in turns.values():
        decks = [index for index, record in enumerate(turn) if record.participant == "deck"]
        for index, record in enumerate(turn):
            if record.participant == peer and decks:
                found.append((turn[min(decks, key=lambda deck: abs(deck - index))], record))
    return found


@dataclass(frozen=True)
class Compared:
    """Two figures side by side."""

    ours: float
    theirs: float
    is_steady: bool
    # The machine, in nanoseconds, if it was probed.
    probe: float | None

    @staticmethod
    def of(ours: float, theirs: float, *records: Record) -> "Compared":
        probes = [probe for record in records for probe in record.probes]
        return Compared(ours, theirs, is_steady(*records), median(probes) if probes else None)

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def compared(records: list[Record], claim: Versus, at: int, peer: str) -> list[Compared]:
    """DECK's figure beside a peer's: all steady pairs, or all there are if the steady ones are too few to say anything."""
    found = []
    for deck, other in pairs(records, claim.experiment, peer):
        ours, theirs = deck.value(claim.what, at), other.value(claim.what, at)
        if ours is not None and theirs:
            found.append(Compared.of(ours, theirs, deck, other))
    return best_known(found)


def best_known(found: list[Compared]) -> list[Compared]:
    """The steady ones, if these are enough."""
    steady = [one for one in found if one.is_steady]
    return steady if len(steady) >= LEAST else found


def states(found: list[Compared]) -> list[list[Compared]]:
    """Steady pairs by the state in which the machine was, the fastest first: states lie apart by more than pairs may differ."""
    ordered = sorted((one for one in found if one.is_steady and one.probe), key=lambda one: one.probe)
    groups: list[list[Compared]] = []
    for one in ordered:
        if groups and one.probe <= STEADY * groups[-1][-1].probe:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def values(records: list[Record], experiment: str, participant: str, what: str, at: int) -> list[float]:
    """All values of one figure."""
    mine = (record for record in records if (record.experiment, record.participant) == (experiment, participant))
    found = (record.value(what, at) for record in mine if record.failure is None)
    return [one for one in found if one is not None]


def unit_of(records: list[Record], experiment: str, what: str) -> str:
    mine = (record for record in records if record.experiment == experiment)
    return next((figure.unit for record in mine for figure in record.figures if figure.what == what), "")


@dataclass
class Run:
    """All that is known of one run of the comparison."""

    machine: dict[str, str]
    versions: dict[str, str]
    # Participants that could not be had, and why.
    missing: dict[str, str]
    records: list[Record]
    # What it was asked to measure: whoever goes on with it need not say so again.
    asked: dict[str, object] = field(default_factory=dict)

    @staticmethod
    def load(folder: Path) -> "Run":
        with gzip.open(folder / "raw.json.gz") as file:
            raw = json.load(file)
        records = []
        for record in raw.pop("records"):
            figures = [Figure(**figure) for figure in record.pop("figures")]
            records.append(Record(figures=figures, points=tuple(record.pop("points")), **record))
        return Run(records=records, **raw)

    def save(self, folder: Path) -> None:
        """Replaces the file at once: a run that is stopped has lost nothing that was saved."""
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / "raw.json.gz.new"
        # No time stamp inside: the same data give the same bytes.
        with new.open("wb") as plain, gzip.GzipFile(fileobj=plain, mode="wb", mtime=0) as packed:
            packed.write(json.dumps(asdict(self)).encode())
        new.replace(folder / "raw.json.gz")
