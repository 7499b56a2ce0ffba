"""Runs DECK and its peers in turn.

In a round every peer runs once, and DECK before each group of three and at the end, so that the two sides of a pair are neighbours
in time. Each round begins with another peer. Before every run and after the last a *probe* measures the machine itself: one way
through a bare ring. A virtual machine's processors may be moved under it from one moment to the next, and other people's work comes
and goes; a pair counts only if its probes agree.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from comparison.measures import Experiment
from comparison.participants import Figure, Participant, figures_of, is_one_by_one

# Probes of a pair that are further apart say that the machine changed.
STEADY = 1.3
# A probe over so many nanoseconds says that somebody else had one of the processors.
QUIET = 1000
# Peers between two runs of DECK.
GROUP = 3
# A participant that fails so often in a row is left alone.
PATIENCE = 2


@dataclass
class Record:
    experiment: str
    round: int
    participant: str
    # The machine before and after, in nanoseconds.
    before: float | None
    after: float | None
    figures: list[Figure]
    failure: str | None
    seconds: float

    def plain(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Pair:
    """Neighbours of one round."""

    deck: Record
    peer: Record

    @property
    def is_steady(self) -> bool:
        probes = [probe for record in (self.deck, self.peer) for probe in (record.before, record.after)]
        known = [probe for probe in probes if probe]
        return not known or max(known) <= min(STEADY * min(known), QUIET)


def pairs(records: list[Record], experiment: str, peer: str) -> list[Pair]:
    """A pair for each round in which both sides came to their end."""
    found = []
    mine = [record for record in records if record.experiment == experiment and record.failure is None]
    for number in sorted({record.round for record in mine}):
        in_round = [record for record in mine if record.round == number]
        decks = [index for index, record in enumerate(in_round) if record.participant == "deck"]
        for index, record in enumerate(in_round):
            if record.participant == peer and decks:
                nearest = min(decks, key=lambda deck: abs(deck - index))
                found.append(Pair(in_round[nearest], record))
    return found


class Runner:
    def __init__(self, participants: dict[str, Participant], cpus: str, share_of_time: float) -> None:
        self.participants = participants
        self.cpus = cpus
        self.share_of_time = share_of_time
        self.records: list[Record] = []
        self._failures: dict[tuple[str, str], int] = {}

    def experiment(self, experiment: Experiment, rounds: int) -> None:
        peers = [name for name in experiment.peers if name in self.participants]
        began = time.monotonic()
        # Disturbed pairs are made up for, up to a limit.
        for number in range(2 * rounds if peers else rounds):
            if number >= rounds and self._steady(experiment, peers) >= rounds:
                break
            first = len(self.records)
            for name in _order(peers, number):
                if self._failures.get((experiment.name, name), 0) < PATIENCE:
                    if sys.stderr.isatty():
                        print(f"\r\x1b[K{experiment.name}: round {number + 1}, {name}", end="", file=sys.stderr, flush=True)
                    self._one(experiment, number, name)
            last = self._probe()
            for record, following in zip(self.records[first:], self.records[first + 1 :], strict=False):
                record.after = following.before
            if len(self.records) > first:
                self.records[-1].after = last
            self._progress(experiment, number, rounds, peers, time.monotonic() - began)

    def _steady(self, experiment: Experiment, peers: list[str]) -> int:
        """How many steady pairs the peer has that has fewest."""
        counts = [
            sum(pair.is_steady for pair in pairs(self.records, experiment.name, peer))
            for peer in peers
            if self._failures.get((experiment.name, peer), 0) < PATIENCE
        ]
        return min(counts, default=0)

    def _one(self, experiment: Experiment, number: int, name: str) -> None:
        before, began = self._probe(), time.monotonic()
        figures, failure = self._run(self.participants[name], experiment)
        seconds = round(time.monotonic() - began, 3)
        self.records.append(Record(experiment.name, number, name, before, None, figures, failure, seconds))
        key = (experiment.name, name)
        self._failures[key] = self._failures.get(key, 0) + 1 if failure else 0
        if failure:
            print(f"\ncompare: {name} failed in {experiment.name}: {failure}", file=sys.stderr)

    def _run(self, participant: Participant, experiment: Experiment) -> tuple[list[Figure], str | None]:
        one_by_one = is_one_by_one(participant.name, experiment.benchmark)
        groups = [(point,) for point in experiment.points] if one_by_one else [experiment.points]
        seconds = max(experiment.time * self.share_of_time, 0.05)
        figures: list[Figure] = []
        for points in groups:
            command = participant.command(experiment.benchmark, self.cpus, seconds, points)
            # Idle waits for as many seconds as its point says, whatever the time per point.
            waiting = max(points) if experiment.benchmark == "idle" else 0
            limit = 60 + waiting + 10 * len(points) * seconds
            output, failure = run_limited(command, participant.environment, limit)
            if failure:
                return figures, failure
            figures += figures_of(participant.name, output)
        return figures, None

    def _probe(self) -> float | None:
        ring = self.participants.get("ring")
        if ring is None:
            return None
        output, failure = run_limited(ring.command("pingpong", self.cpus, 0.04, (8,)), {}, 20)
        return None if failure else figures_of("ring", output)[0].value

    def _progress(self, experiment: Experiment, number: int, rounds: int, peers: list[str], seconds: float) -> None:
        done = number + 1
        left = max(rounds - done, 0) * seconds / done
        probe = self.records[-1].after
        words = [
            f"{experiment.name}: round {done} of {rounds}",
            f"{self._steady(experiment, peers)} steady" if peers else "",
            f"bare ring {probe:.0f} ns" if probe and probe <= QUIET else "others at work",
            f"about {left:.0f} s left" if left else "",
        ]
        line = ", ".join(word for word in words if word)
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="\n" if left == 0 else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def _order(peers: list[str], number: int) -> list[str]:
    turn = number % len(peers) if peers else 0
    turned = peers[turn:] + peers[:turn]
    order = []
    for start in range(0, len(turned), GROUP):
        order += ["deck", *turned[start : start + GROUP]]
    return [*order, "deck"]


def run_limited(command: list[str], environment: dict[str, str], limit: float) -> tuple[str, str | None]:
    """Runs a command to its end or to the limit; nothing that it has started is left behind."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _end(process)
        return "", f"did not end within {limit:.0f} s"
    except BaseException:
        _end(process)
        raise
    if process.returncode != 0:
        said = [line.strip() for line in (errors + output).splitlines() if any(map(str.isalpha, line))]
        return output, f"status {process.returncode}: {' '.join(said[:3]) or 'it said nothing'}"
    return output, None


def _end(process: subprocess.Popen) -> None:
    """Launchers of MPI end their processes when they are asked to, and lose them when they are killed."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sent)
        except ProcessLookupError:
            pass
        try:
            process.communicate(timeout=5)
            return
        except subprocess.TimeoutExpired:
            continue
