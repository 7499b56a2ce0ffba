"""Runs trials in turn and writes each to a file at once: whoever stops a run loses nothing, and a later one goes on."""

import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.libraries import Library
from experiments.results import Results, Wrong
from experiments.trials import Experiment

LIMIT_SECONDS = 600
RAW = "raw.jsonl"
# Others may take so much of the machine; more is a disturbance.
QUIET = 0.1


@dataclass(frozen=True)
class Record:
    experiment: str
    point: str
    round: int
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


def read(folder: Path) -> list[Record]:
    """What earlier runs left there."""
    raw = folder / RAW
    return [Record(**json.loads(line)) for line in raw.read_text().splitlines()] if raw.exists() else []


def _busy() -> float:
    """Seconds of processor time that were used on this machine."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, *_ = fields
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _adopt_orphans() -> None:
    """From now on processes whose parents have ended come to this one: the time that they took is told to who waits for them.
    `deck run` keeps a process that outlives it to end the nodes."""
    pr_set_child_subreaper = 36
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def _bury_orphans() -> None:
    """Waits for all that a command has left behind."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _seconds(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """The time that the program tells, and how much of the machine others took meanwhile."""
    _adopt_orphans()
    own, all_busy, clock = os.times(), _busy(), os.times().elapsed
    ended = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
    )
    if ended.returncode != 0:
        sys.exit(f"papers: this failed: {' '.join(command)}\n{ended.stderr}")
    _bury_orphans()
    spent, elapsed = os.times(), os.times().elapsed - clock
    mine = spent.children_user - own.children_user + spent.children_system - own.children_system
    others = max(_busy() - all_busy - mine, 0.0) / (elapsed * (os.cpu_count() or 1))
    told = re.search(r"([0-9.]+) (m?)s\b", ended.stdout)
    if told is None:
        sys.exit(f"papers: no time in what this printed: {' '.join(command)}\n{ended.stdout}")
    return float(told[1]) / (1000 if told[2] else 1), others


class Runs:
    """Runs of one experiment with one MPI library, whose results are looked at."""

    def __init__(self, experiment: Experiment, library: Library) -> None:
        self._experiment = experiment
        self._library = library
        self._results = Results(experiment.outcome)
        first = experiment.points[0]
        self.participants = tuple(one for one in experiment.participants if experiment.trial(one, first, library))

    def run(self, participant: str, point: str, number: int) -> Record:
        """One run. Ends the program if it has not come to what it should have."""
        trial = self._experiment.trial(participant, point, self._library)
        assert trial, "only those that the library can be take part"
        with tempfile.TemporaryDirectory() as place:
            files = [Path(place) / f"result-{index}" for index, _ in enumerate(trial.result_options)]
            named = [word for option, file in zip(trial.result_options, files, strict=True) for word in (option, str(file))]
            seconds, others = _seconds([*trial.command, *named], self._library.environment)
            try:
                self._results.look_at(participant, point, files)
                cost_ms = self._experiment.cost_ms(files) if self._experiment.cost_ms else None
            except Wrong as wrong:
                sys.exit(f"papers: wrong result of {self._experiment.name}: {wrong}\npapers: repeat with: {' '.join(trial.command)}")
        return Record(self._experiment.name, point, number, participant, seconds, round(others, 3), cost_ms)

    def check(self) -> None:
        """Before anything is timed: does everybody come to the right result?"""
        for participant in self.participants:
            self.run(participant, self._experiment.points[0], 0)
        print(f"{self._experiment.name}: all come to the same result", file=sys.stderr)

    def _steady_rounds(self, point: str, records: list[Record]) -> int:
        """Rounds in which nobody disturbed any participant at this point."""
        mine = [one for one in records if (one.experiment, one.point) == (self._experiment.name, point) and one.is_steady]
        rounds = {one.round for one in mine}
        return sum(sum(one.round == number for one in mine) == len(self.participants) for number in rounds)

    def add(self, rounds: int, folder: Path) -> None:
        """Adds rounds until there are so many steady ones, or twice as many in all. In each round every point is run by every
        participant, one after the other, and each round begins with another participant."""
        folder.mkdir(parents=True, exist_ok=True)
        name = self._experiment.name
        done = {(record.point, record.round, record.participant) for record in read(folder) if record.experiment == name}
        for number in range(2 * rounds):
            for point in self._experiment.points:
                if self._steady_rounds(point, read(folder)) >= rounds:
                    continue
                turn = number % len(self.participants)
                for participant in self.participants[turn:] + self.participants[:turn]:
                    if (point, number, participant) in done:
                        continue
                    print(f"{name} {point}, round {number + 1}: {participant}", file=sys.stderr, flush=True)
                    record = self.run(participant, point, number)
                    with (folder / RAW).open("a") as raw:
                        raw.write(json.dumps(asdict(record)) + "\n")
