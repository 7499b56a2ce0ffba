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


def _seconds(command: list[str]) -> tuple[float, float]:
    """The time that the program tells, and how much of the machine others took meanwhile."""
    # Open MPI refuses to run as root unless it is told twice that this is meant.
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    _adopt_orphans()
    own, all_busy, clock = os.times(), _busy(), os.times().elapsed
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    if ended.returncode != 0:
        sys.exit(f"papers: this failed: {' '.join(command)}\n{ended.stderr}")
    _bury_orphans()
    spent, elapsed = os.times(), os.times().elapsed - clock
    mine = spent.children_user - own.children_user + spent.children_system - own.children_system
    others = max(_busy() - all_busy - mine, 0.0) / (elapsed * (os.cpu_count() or 1))
    told = re.search(r"([0-9.]+) s\b", ended.stdout)
    if told is None:
        sys.exit(f"papers: no time in what this printed: {' '.join(command)}\n{ended.stdout}")
    return float(told.group(1)), others


def _steady_rounds(experiment: Experiment, point: str, records: list[Record]) -> int:
    """Rounds in which nobody disturbed any participant at this point."""
    mine = [record for record in records if (record.experiment, record.point) == (experiment.name, point) and record.is_steady]
    participants = len(experiment.participants)
    return sum(sum(one.round == number for one in mine) == participants for number in {record.round for record in mine})


def run(experiment: Experiment, rounds: int, folder: Path) -> None:
    """Adds rounds until there are so many steady ones, or twice as many in all. In each round every point is run by every
    participant, one after the other, and each round begins with another participant."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {(record.point, record.round, record.participant) for record in read(folder) if record.experiment == experiment.name}
    for number in range(2 * rounds):
        for point in experiment.points:
            if _steady_rounds(experiment, point, read(folder)) >= rounds:
                continue
            turn = number % len(experiment.participants)
            for participant in experiment.participants[turn:] + experiment.participants[:turn]:
                if (point, number, participant) in done:
                    continue
                print(f"{experiment.name} {point}, round {number + 1}: {participant}", file=sys.stderr, flush=True)
                with tempfile.TemporaryDirectory() as place:
                    trial = experiment.trial(participant, point)
                    result = Path(place) / "result.bin"
                    seconds, others = _seconds([*trial.command, trial.result_option, str(result)])
                record = Record(experiment.name, point, number, participant, seconds, round(others, 3))
                with (folder / RAW).open("a") as raw:
                    raw.write(json.dumps(asdict(record)) + "\n")


def check_results(experiment: Experiment) -> None:
    """Ends the program if participants do not come to the same result, bit for bit."""
    if not experiment.is_compared:
        return
    with tempfile.TemporaryDirectory() as place:
        results = {}
        for participant in experiment.participants:
            trial, result = experiment.trial(participant, experiment.points[0]), Path(place) / "result.bin"
            _seconds([*trial.command, trial.result_option, str(result)])
            results[participant] = result.read_bytes()
        first, *rest = results.values()
        if any(other != first for other in rest):
            sys.exit(f"papers: {experiment.name}: results differ")
        print(f"{experiment.name}: all come to the same {len(first)} bytes", file=sys.stderr)
