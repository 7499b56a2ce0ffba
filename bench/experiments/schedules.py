"""What the scheduler and its twin say that they did: looked at task by task, and priced by OptiSCI."""

import csv
import json
import subprocess
import tempfile
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

from comparison.installing import ROOT

from experiments.building import RELEASE
from experiments.results import Wrong

PLACEMENTS = ROOT / "examples/placement"
# Tasks of each producer, and of each six how many go into which queue, in the paper.
TASKS = 600
SHARES = (3, 2, 1)
PRODUCERS = 2

# The tasks that went through a queue: (queue, producer, task).
Schedule = frozenset[tuple[int, int, int]]


@cache
def homes(mapping: str) -> tuple[int, ...]:
    """The node of each queue in one of the paper's mappings, as `deck place table1` has them."""
    placed = json.loads((PLACEMENTS / f"scheduler-{mapping}.json").read_text())["segments"]
    return tuple(placed[f"queue {queue}"] for queue in range(len(SHARES)))


def wanted(tasks: int) -> Schedule:
    """Every task of every producer, in its queue."""
    round_of_queues = [queue for queue, share in enumerate(SHARES) for _ in range(share)]
    each = ((producer, task) for producer in range(PRODUCERS) for task in range(tasks))
    return frozenset((round_of_queues[task % len(round_of_queues)], producer, task) for producer, task in each)


def read(history: Path) -> Schedule:
    """What ran, if every task ran once and each queue gave out in the order in which it took in."""
    with history.open(newline="") as file:
        lines = [(one["process"], *(int(one[name]) for name in ("queue", "place", "producer", "task"))) for one in csv.DictReader(file)]
    # Which task was at which place of a queue, by what each process says in its own order.
    put_in: dict[tuple[int, int], tuple[int, int]] = {}
    taken: dict[tuple[int, int], tuple[int, int]] = {}
    last: dict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (-1, -1))
    for process, queue, place, producer, task in lines:
        is_producer = process == f"producer {producer}"
        if not is_producer and not process.startswith("consumer "):
            raise Wrong(f"{process} put in task {task} of producer {producer}")
        last_place, last_task = last[process, queue]
        if place <= last_place or (is_producer and task <= last_task):
            raise Wrong(f"{process} used q{queue} out of order: place {place} after {last_place}, task {task}")
        last[process, queue] = place, task
        side = put_in if is_producer else taken
        if (queue, place) in side:
            raise Wrong(f"place {place} of q{queue} was used twice, the second time by {process}")
        side[queue, place] = producer, task
    _expect_the_same(put_in, taken)
    twice = [task for task, count in Counter(taken.values()).items() if count > 1]
    if twice:
        raise Wrong(f"task {twice[0][1]} of producer {twice[0][0]} ran more than once")
    return frozenset((queue, *task) for (queue, _place), task in taken.items())


def _expect_the_same(put_in: dict[tuple[int, int], tuple[int, int]], taken: dict[tuple[int, int], tuple[int, int]]) -> None:
    for queue, place in sorted(put_in.keys() | taken.keys()):
        here = put_in.get((queue, place)), taken.get((queue, place))
        if here[0] != here[1]:
            went_in, came_out = ("nothing" if one is None else f"task {one[1]} of producer {one[0]}" for one in here)
            raise Wrong(f"at place {place} of q{queue} {went_in} went in and {came_out} came out")
    for queue in range(len(SHARES)):
        places = sorted(place for one, place in put_in if one == queue)
        if places != list(range(len(places))):
            raise Wrong(f"the places of q{queue} have a hole")


def difference(found: Schedule, expected: Schedule) -> str:
    """Tasks that are missing or in a wrong queue."""
    few = [f"task {task} of producer {producer} in q{queue}" for queue, producer, task in sorted(expected - found)[:3]]
    return f"{len(expected - found)} of {len(expected)} tasks did not run as they should, among them {', '.join(few)}" if few else (
        f"{len(found - expected)} tasks ran that nobody has"
    )


def cost_ms(record: Path) -> float:
    """What the accesses of a run cost on the paper's ring of four nodes, by `deck place`."""
    with tempfile.TemporaryDirectory() as place:
        model, placement = Path(place) / "model.json", Path(place) / "placement.json"
        _place("import", "record", record, "--onto", PLACEMENTS / "scheduler.json", "-o", model)
        _place("import", "record-placement", record, "--onto", model, "-o", placement)
        return json.loads(_place("cost", model, placement, "--json"))["total_ns"] / 1e6


def _place(*words: str | Path) -> str:
    ended = subprocess.run([RELEASE / "deck", "place", *words], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise Wrong(f"deck place {words[0]}: {ended.stderr.strip()}")
    return ended.stdout
