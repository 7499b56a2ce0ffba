"""What is run: experiments, their points, and the command of each participant.

Everybody computes with two processes, one for each core, and a manager beside them where the papers have one: a thread of node 0 in
DECK, a process in MPI.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from experiments.building import RELEASE, TWINS

K = 1 << 10
# The largest message that DECK copies instead of handing its buffer over (docs/design/016).
ZERO_COPY_FROM = 1024
SCENE = Path("/usr/share/doc/povray/examples/advanced/biscuit.pov")

DECK, MPI, PATIENT, YIELDING = "DECK", "MPI", "MPI, manager sleeps", "MPI, yields"


@dataclass(frozen=True)
class Trial:
    """One point of an experiment for one participant: a command, and the option and place of its result file."""

    command: tuple[str, ...]
    result_option: str


@dataclass(frozen=True)
class Experiment:
    name: str
    # What the papers say, in one sentence each.
    claims: tuple[str, ...]
    what_points_are: str
    points: tuple[str, ...]
    participants: tuple[str, ...]
    trial: Callable[[str, str], Trial]
    # Whether result files of all participants must be the same, bit for bit.
    is_compared: bool = True


def _deck(name: str, *options: str) -> tuple[str, ...]:
    return (str(RELEASE / "deck"), "run", "-n", "2", "--", str(RELEASE / name), "--threads", "1", *options)


def _mpi(name: str, processes: int, *options: str) -> tuple[str, ...]:
    # With more processes than cores Open MPI yields while it polls, by itself.
    return ("mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(processes), str(TWINS / name), *options)


def _managed(name: str, participant: str, *options: str) -> tuple[str, ...]:
    """With a manager, who waits as MPI does or sleeps between looks."""
    if participant == DECK:
        return _deck(name, *options)
    return _mpi(name, 3, *options, *(("--patient", "1") if participant == PATIENT else ()))


def _mandelbrot(participant: str, point: str) -> Trial:
    return Trial(_managed("mandelbrot", participant, "--slices", point), "--counts")


def _laplace(participant: str, point: str) -> Trial:
    size, _, sweeps = point.partition(" x ")
    options = ("--size", size, *(("--max-sweeps", sweeps, "--tolerance", "1e-300") if sweeps else ()))
    if participant == DECK:
        return Trial(_deck("laplace", *options), "--temperatures")
    command = _mpi("laplace", 2, *options)
    if participant == YIELDING:
        command = (command[0], "--mca", "mpi_yield_when_idle", "1", *command[1:])
    return Trial(command, "--temperatures")


def _farm(participant: str, point: str) -> Trial:
    options = ("--size", "320x512", "--slices", point)
    if participant == DECK:
        return Trial(_managed("povray-farm", participant, str(SCENE), *options), "--out")
    return Trial(_managed("povray-farm", participant, "--scene", str(SCENE), *options), "--pixels")


def halo_bytes(point: str) -> int:
    """Bytes of one message between neighbours: one colour of one row."""
    return (int(point.split("x")[0]) + 1) // 2 * 8


EXPERIMENTS = (
    Experiment(
        "mandelbrot",
        ("time over slices is U-shaped", "DECK takes at most 1.02 of MPI's time"),
        "slices",
        ("16", "32", "64", "128", "256", "512"),
        (DECK, MPI, PATIENT),
        _mandelbrot,
    ),
    Experiment(
        "laplace",
        ("DECK is ahead of MPI where messages are handed over without a copy",),
        "points across x down, and sweeps where they are fixed",
        # As many points and sweeps in ever wider slabs, 128 bytes to 64 KiB a message; then the slab of the papers.
        (*(f"{width}x{(1 << 18) // width + 2} x 2000" for width in (32, 64, 128, 256, K, 4 * K, 16 * K)), "600x600"),
        (DECK, MPI, YIELDING),
        _laplace,
    ),
    Experiment(
        "povray-farm",
        ("DECK takes at most 1.02 of MPI's time",),
        "slices",
        ("4", "8", "16"),
        (DECK, MPI, PATIENT),
        _farm,
        is_compared=False,
    ),
)
