"""Runs trials in turn, and looks at what they come to."""

import contextlib
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from experiments import folder
from experiments.folder import Record
from experiments.libraries import Library
from experiments.results import Results, Wrong
from experiments.trials import Experiment

LIMIT_SECONDS = 600
# Rounds make up for disturbed ones, up to so many times the rounds that were asked for.
MOST = 2


def _busy() -> float:
    """Seconds of processor time that were used on this machine, or that the host of a virtual one gave to others."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


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
    own, all_busy, clock = os.times(), _busy(), time.monotonic()
    try:
        ended = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"papers: this was ended after {LIMIT_SECONDS} s: {' '.join(command)}")
    if ended.returncode != 0:
        sys.exit(f"papers: this failed: {' '.join(command)}\n{ended.stderr}")
    _bury_orphans()
    spent, elapsed = os.times(), time.monotonic() - clock
    mine = spent.children_user - own.children_user + spent.children_system - own.children_system
    others = max(_busy() - all_busy - mine, 0.0) / (elapsed * (os.cpu_count() or 1))
    told = re.search(r"([0-9.]+) (m?)s\b", ended.stdout)
    if told is None:
        sys.exit(f"papers: no time in what this printed: {' '.join(command)}\n{ended.stdout}")
    return float(told[1]) / (1000 if told[2] else 1), others


class Runs:
    """Runs of one experiment with one MPI library, whose results are looked at, and the folder where their times are kept."""

    def __init__(self, experiment: Experiment, library: Library, place: Path) -> None:
        self.experiment = experiment
        # Rounds that are over.
        self.rounds = 0
        self._library = library
        self._folder = place
        self._results = Results(experiment.outcome)
        first = experiment.points[0]
        self.participants = tuple(one for one in experiment.participants if experiment.trial(one, first, library))
        self._records = [one for one in folder.read(place) if one.experiment == experiment.name]

    def run(self, participant: str, point: str, turn: int) -> Record:
        """One run. Ends the program if it has not come to what it should have."""
        trial = self.experiment.trial(participant, point, self._library)
        assert trial, "only those that the library can be take part"
        with tempfile.TemporaryDirectory() as place:
            files = [Path(place) / f"result-{index}" for index, _ in enumerate(trial.result_options)]
            named = [word for option, file in zip(trial.result_options, files, strict=True) for word in (option, str(file))]
            seconds, others = _seconds([*trial.command, *named], self._library.environment)
            try:
                self._results.look_at(participant, point, files)
                cost_ms = self.experiment.cost_ms(files) if self.experiment.cost_ms else None
            except Wrong as wrong:
                sys.exit(f"papers: wrong result of {self.experiment.name}: {wrong}\npapers: repeat with: {' '.join(trial.command)}")
        return Record(self.experiment.name, point, turn, participant, seconds, round(others, 3), cost_ms)

    def check(self) -> None:
        """Before anything is timed: does everybody come to the right result?"""
        for participant in self.participants:
            self.run(participant, self.experiment.points[0], 0)
        print(f"{self.experiment.name}: all come to the same result", file=sys.stderr)

    def _steady_turns(self, point: str) -> int:
        """Turns in which nobody disturbed any participant at this point."""
        mine = [one.turn for one in self._records if one.point == point and one.is_steady]
        return sum(mine.count(turn) == len(self.participants) for turn in set(mine))

    def _left(self, rounds: int) -> Iterator[tuple[str, int, str]]:
        """What is still to be run in the next round, if there shall be so many steady ones: point, turn and participant. In each turn
        a point is run by every participant, one after the other, and each turn begins with another participant."""
        # A turn that was stopped is made up for as if it had been disturbed: what is run now belongs to another time of the machine.
        begun = {(one.point, one.turn) for one in self._records}
        turns = self.experiment.turns
        for point in self.experiment.points:
            if self._steady_turns(point) >= rounds * turns:
                continue
            for turn in range(self.rounds * turns, (self.rounds + 1) * turns):
                first = turn % len(self.participants)
                if (point, turn) not in begun:
                    yield from ((point, turn, one) for one in self.participants[first:] + self.participants[:first])

    def has_more(self, rounds: int) -> bool:
        """Whether there are not yet so many steady rounds, and neither twice as many in all."""
        while self.rounds < MOST * rounds:
            if next(self._left(rounds), None):
                return True
            # An earlier run has done this one.
            self.rounds += 1
        return False

    def round(self, rounds: int, tell: Callable[[str], None]) -> list[Record]:
        """One round of as many."""
        before = len(self._records)
        for point, turn, participant in list(self._left(rounds)):
            tell(f"{self.experiment.name} {point}, turn {turn + 1}: {participant}")
            record = self.run(participant, point, turn)
            folder.add(self._folder, record)
            self._records.append(record)
        self.rounds += 1
        return self._records[before:]
