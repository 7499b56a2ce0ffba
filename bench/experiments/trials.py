"""What is run: experiments, their points, and the command of each participant.

Where work is handed out or edges are exchanged everybody computes on as many cores: DECK with a process for each, and, laid out as the
papers had it, with one process whose threads share them; MPI with a process for each. Where the papers have a manager it is one more
thread of node 0 in DECK, one more process in MPI. The scheduler has four processes, as in its paper.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from experiments import pictures, schedules
from experiments.building import RELEASE, twin
from experiments.libraries import Library
from experiments.results import SAME_BYTES, Outcome

K = 1 << 10
# The largest message that DECK copies instead of handing its buffer over (docs/design/016).
ZERO_COPY_FROM = 1024
SCENE = Path("/usr/share/doc/povray/examples/advanced/biscuit.pov")

# Large and smooth enough that rendering takes longer than starting POV-Ray for each slice; 16 blocks of rows, which slices share evenly.
FARM, ANTIALIAS = (768, 512), "0.3"
# Computing threads or processes: as many as the papers' cluster had, since the narrowest slab has only 16 rows.
MOST_COMPUTING = 8

DECK, ONE_NODE = "DECK", "DECK, one node"
MPI, PATIENT, YIELDING, SLEEPING = "MPI", "MPI, manager sleeps", "MPI, yields", "MPI, sleeps"
# Who is not an MPI.
OURS = (DECK, ONE_NODE)


@dataclass(frozen=True)
class Trial:
    """One point of an experiment for one participant: a command, and the options that name its result files."""

    command: tuple[str, ...]
    result_options: tuple[str, ...]


@dataclass(frozen=True)
class Experiment:
    name: str
    # What the papers say, in one sentence each.
    claims: tuple[str, ...]
    what_points_are: str
    points: tuple[str, ...]
    participants: tuple[str, ...]
    # None where an MPI library cannot be this participant.
    trial: Callable[[str, str, Library], Trial | None]
    # What runs have to come to.
    outcome: Outcome = SAME_BYTES
    # What OptiSCI says that a run cost on the paper's machine, by its result files.
    cost_ms: Callable[[list[Path]], float] | None = None
    # How often everybody runs in a round at each point: short runs say little each.
    turns: int = 1
    # Into how many parts the work is cut at a point, and what one is called, where that is known beforehand.
    parts: Callable[[str], tuple[int, str] | None] = lambda _point: None
    # Whether parts are handed out to whoever asks, one after the other.
    is_handed_out: bool = False


def computing(cores: int | None = None) -> int:
    """On how many cores everybody computes, on this machine or on another."""
    return min(cores or len(os.sched_getaffinity(0)), MOST_COMPUTING)


def _deck(name: str, nodes: int, *options: str) -> tuple[str, ...]:
    return (str(RELEASE / "deck"), "run", "-n", str(nodes), "--", str(RELEASE / name), *options)


def _deck_on_cores(name: str, participant: str, *options: str) -> tuple[str, ...]:
    """A process for each core, or a thread for each in one."""
    nodes, threads = (1, computing()) if participant == ONE_NODE else (computing(), 1)
    return _deck(name, nodes, "--threads", str(threads), *options)


def _mpi(library: Library, name: str, processes: int, *options: str, is_yielding: bool = False) -> tuple[str, ...]:
    # With more processes than cores Open MPI yields while it polls, by itself.
    launch = library.launch + (library.to_yield if is_yielding else ())
    return (*launch, "-n", str(processes), str(twin(library, name)), *options)


def _managed(library: Library, name: str, participant: str, *options: str) -> tuple[str, ...]:
    """MPI with a manager, who waits as MPI does or sleeps between looks."""
    return _mpi(library, name, computing() + 1, *options, *(("--patient", "1") if participant == PATIENT else ()))


def _mandelbrot(participant: str, point: str, library: Library) -> Trial:
    options = ("--slices", point)
    if participant in OURS:
        return Trial(_deck_on_cores("mandelbrot", participant, *options), ("--counts",))
    return Trial(_managed(library, "mandelbrot", participant, *options), ("--counts",))


def _laplace(participant: str, point: str, library: Library) -> Trial | None:
    size, _, sweeps = point.partition(" x ")
    options = ("--size", size, *(("--max-sweeps", sweeps, "--tolerance", "1e-300") if sweeps else ()))
    if participant in OURS:
        return Trial(_deck_on_cores("laplace", participant, *options), ("--temperatures",))
    is_yielding = participant == YIELDING
    if is_yielding and not library.to_yield:
        return None
    return Trial(_mpi(library, "laplace", computing(), *options, is_yielding=is_yielding), ("--temperatures",))


def _farm(participant: str, point: str, library: Library) -> Trial:
    width, height = FARM
    options = ("--size", f"{width}x{height}", "--slices", point, "--antialias", ANTIALIAS)
    if participant in OURS:
        return Trial(_deck_on_cores("povray-farm", participant, str(SCENE), *options), ("--out",))
    return Trial(_managed(library, "povray-farm", participant, "--scene", str(SCENE), *options), ("--pixels",))


@cache
def _whole_render() -> pictures.Picture:
    return pictures.whole_render(SCENE, FARM, ANTIALIAS)


def _tasks(point: str) -> int:
    """How many tasks each producer has."""
    _, _, tasks = point.partition(" x ")
    return int(tasks or schedules.TASKS)


def _scheduler(participant: str, point: str, library: Library) -> Trial | None:
    mapping, _, _ = point.partition(" x ")
    place = ",".join(f"q{queue}={home}" for queue, home in enumerate(schedules.homes(mapping)))
    options, files = ("--place", place, "--tasks", str(_tasks(point))), ("--history", "--record")
    if participant == DECK:
        return Trial(_deck("scheduler", 4, *options), files)
    if participant == MPI and len(os.sched_getaffinity(0)) < 4:
        # Whoever looks again at once keeps the core from whom it waits for: that takes seconds, and proves nothing.
        return None
    way = {MPI: "poll", YIELDING: "yield", SLEEPING: "sleep"}[participant]
    return Trial(_mpi(library, "scheduler", 4, *options, "--wait", way, is_yielding=participant == YIELDING), files)


def _slices(point: str) -> tuple[int, str]:
    return int(point), "slice"


def _sweeps(point: str) -> tuple[int, str] | None:
    _, _, sweeps = point.partition(" x ")
    return (int(sweeps), "sweep") if sweeps else None


def halo_bytes(point: str) -> int:
    """Bytes of one message between neighbours: one colour of one row."""
    return (int(point.split("x")[0]) + 1) // 2 * 8


EXPERIMENTS = (
    Experiment(
        "mandelbrot",
        ("time over slices is U-shaped", "DECK takes at most 1.02 of MPI's time"),
        "slices",
        ("16", "32", "64", "128", "256", "512"),
        (DECK, ONE_NODE, MPI, PATIENT),
        _mandelbrot,
        turns=4,
        parts=_slices,
        is_handed_out=True,
    ),
    Experiment(
        "laplace",
        ("DECK is ahead of MPI where messages are handed over without a copy",),
        "points across x down, and sweeps where they are fixed",
        # As many points and sweeps in ever wider slabs, 128 bytes to 64 KiB a message; then the slab of the papers.
        (*(f"{width}x{(1 << 18) // width + 2} x 2000" for width in (32, 64, 128, 256, K, 4 * K, 16 * K)), "600x600"),
        (DECK, ONE_NODE, MPI, YIELDING),
        _laplace,
        parts=_sweeps,
    ),
    Experiment(
        "povray-farm",
        ("DECK takes at most 1.02 of MPI's time",),
        "slices",
        ("4", "8"),
        (DECK, ONE_NODE, MPI, PATIENT),
        _farm,
        Outcome(
            lambda files: pictures.read(files[0], FARM),
            pictures.difference,
            lambda _point: ("one whole render by POV-Ray", _whole_render()),
        ),
        parts=_slices,
        is_handed_out=True,
    ),
    Experiment(
        "scheduler",
        ("mapping b takes 0.89 and c 0.78 of the time of a, on a ring where memory of other nodes is far",),
        "the paper's mappings, and how many tasks each producer has where it is not 600",
        ("a", "b", "c", "c x 60000"),
        (DECK, MPI, YIELDING, SLEEPING),
        _scheduler,
        Outcome(
            lambda files: schedules.read(files[0]),
            schedules.difference,
            lambda point: ("every task once, in its queue", schedules.wanted(_tasks(point))),
        ),
        lambda files: schedules.cost_ms(files[1]),
        parts=lambda point: (schedules.PRODUCERS * _tasks(point), "task"),
    ),
)
