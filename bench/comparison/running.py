"""Runs DECK and its peers in turn.

In a round every peer runs once, and DECK before each group of three and at the end, so that the two sides of a pair are neighbours
in time. Each round begins with another peer. Before every run and after the last a *probe* measures the machine itself: one way
through a bare ring.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from comparison.contenders import contenders
from comparison.measures import Experiment
from comparison.participants import Figure, Participant, figures_of
from comparison.records import QUIET, Record, is_steady, pairs

# Peers between two runs of DECK.
GROUP = 3
# A participant that fails so often in a row is left alone.
PATIENCE = 2
# Whoever has come to its end before is waited for so many times as long, and so many seconds at least.
SLOWER, SECONDS_AT_LEAST = 5, 30


class Runner:
    """Runs rounds of experiments. Whoever stops it between two runs loses nothing: `records` has what came before."""

    def __init__(self, participants: dict[str, Participant], cpus: str, share_of_time: float, records: list[Record]) -> None:
        self.participants = participants
        self.cpus = cpus
        self.share_of_time = share_of_time
        self.records = records

    def is_complete(self, experiment: Experiment, rounds: int, extra: int) -> bool:
        """Whether so many rounds have been run, and as many pairs are steady or `extra` times as many rounds have not helped."""
        done = self.rounds(experiment)
        if done < rounds or not experiment.peers:
            return done >= rounds
        return done >= extra * rounds or self._steady(experiment) >= rounds

    def rounds(self, experiment: Experiment) -> int:
        """How many rounds of this experiment there are."""
        return max((record.round + 1 for record in self.records if record.experiment == experiment.name), default=0)

    def round(self, experiment: Experiment, tell: Callable[[str], None]) -> None:
        """Runs everybody once more who is still in the race; `tell` hears what runs."""
        number = self.rounds(experiment)
        for points in experiment.stages:
            first = len(self.records)
            try:
                for name in _order(self._peers(experiment, points), number):
                    if not self._is_given_up(experiment, points, name):
                        tell(f"{experiment.name}, round {number + 1}, at {' '.join(map(str, points))}: {name}")
                        self._one(experiment, points, number, name)
            finally:
                last = self._probe()
                for record, following in zip(self.records[first:], self.records[first + 1 :], strict=False):
                    record.after = following.before
                if len(self.records) > first:
                    self.records[-1].after = last

    def summary(self, experiment: Experiment) -> str:
        """How a round went."""
        probe = self.records[-1].after
        words = [
            f"{self._steady(experiment)} steady" if experiment.peers else "",
            f"bare ring {probe:.0f} ns" if probe and probe <= QUIET else "others at work",
        ]
        return ", ".join(word for word in words if word)

    def _peers(self, experiment: Experiment, points: tuple[int, ...]) -> list[str]:
        return [name for name in contenders(self.records, experiment, points) if name in self.participants]

    def _is_given_up(self, experiment: Experiment, points: tuple[int, ...], name: str) -> bool:
        key = (experiment.name, points, name)
        mine = [record for record in self.records if (record.experiment, record.points, record.participant) == key]
        return len(mine) >= PATIENCE and all(record.failure for record in mine[-PATIENCE:])

    def _steady(self, experiment: Experiment) -> int:
        """How many steady pairs there are where there are fewest."""
        counts = [
            sum(is_steady(*pair) for pair in pairs(self.records, experiment.name, peer) if pair[0].points == points)
            for points in experiment.stages
            for peer in self._peers(experiment, points)
            if not self._is_given_up(experiment, points, peer)
        ]
        return min(counts, default=0)

    def _one(self, experiment: Experiment, points: tuple[int, ...], number: int, name: str) -> None:
        before, began = self._probe(), time.monotonic()
        figures, failure = self._run(self.participants[name], experiment, points)
        seconds = round(time.monotonic() - began, 3)
        self.records.append(Record(experiment.name, number, points, name, before, None, figures, failure, seconds))
        if failure:
            print(f"\ncompare: {name} failed in {experiment.name} at {points}: {failure}", file=sys.stderr)

    def _run(
        self, participant: Participant, experiment: Experiment, points: tuple[int, ...]
    ) -> tuple[list[Figure], str | None]:
        seconds = max(experiment.time * self.share_of_time, 0.05)
        command = participant.command(experiment.benchmark, self.cpus, seconds, points)
        limit = self._limit(experiment, points, participant.name, seconds)
        output, failure = run_limited(command, participant.environment, limit)
        if failure:
            return [], failure
        try:
            figures = figures_of(participant.name, output)
        except (ValueError, KeyError, TypeError) as error:
            return [], f"said what cannot be understood ({error!r}): {output[:200]!r}"
        return figures, None if figures else "measured nothing"

    def _limit(self, experiment: Experiment, points: tuple[int, ...], name: str, seconds: float) -> float:
        # Idle waits for as many seconds as its point says, whatever the time per point.
        waiting = max(points) if experiment.benchmark == "idle" else 0
        # Where a core is slow for minutes, collectives of eight that take half a minute take two.
        limit = 120 + waiting + 10 * len(points) * seconds
        key = (experiment.name, points, name)
        ended = [
            record.seconds
            for record in self.records
            if (record.experiment, record.points, record.participant) == key and record.failure is None
        ]
        return min(limit, max(SLOWER * max(ended), SECONDS_AT_LEAST)) if ended else limit

    def _probe(self) -> float | None:
        ring = self.participants.get("ring")
        if ring is None:
            return None
        output, failure = run_limited(ring.command("pingpong", self.cpus, 0.04, (8,)), {}, 20)
        return None if failure else figures_of("ring", output)[0].value


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
