"""How DECK and each peer are started for a benchmark, each in its best configuration."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from comparison import installing, measures


@dataclass(frozen=True)
class Participant:
    name: str
    # From benchmark, processors, seconds and points to a command.
    command: Callable[[str, str, float, tuple[int, ...]], list[str]]
    environment: dict[str, str] = field(default_factory=dict)


# One figure: what it is of, at which point, in which unit, its value.
@dataclass(frozen=True)
class Figure:
    what: str
    at: int
    unit: str
    value: float


def _simple(program: Path) -> Callable[[str, str, float, tuple[int, ...]], list[str]]:
    return lambda benchmark, cpus, time, points: [str(program), benchmark, cpus, str(time), *map(str, points)]


def _processes(benchmark: str, point: int) -> int:
    return {"fan-in": point + 1, "oversubscribed": point, "collectives": point}.get(benchmark, 2)


def _mpi(program: Path, launcher: Path, options: list[str], by_threads: bool = False) -> Callable[[str, str, float, tuple[int, ...]], list[str]]:
    """One launch for all points, which must want the same number of processes. `by_threads`: members of collectives are threads of two."""

    def command(benchmark: str, cpus: str, time: float, points: tuple[int, ...]) -> list[str]:
        if by_threads:
            benchmark = f"thread-{benchmark}"
        counts = {_processes(benchmark, point) for point in points}
        if len(counts) != 1:
            raise ValueError(f"{benchmark} wants another number of processes at each point: one point at a time")
        return [str(launcher), "-n", str(counts.pop()), *options, str(program), benchmark, cpus, str(time), *map(str, points)]

    return command


def _deck(program: Path) -> Callable[[str, str, float, tuple[int, ...]], list[str]]:
    def command(benchmark: str, cpus: str, time: float, points: tuple[int, ...]) -> list[str]:
        at = ",".join(map(str, points))
        return [str(program), "bench", benchmark, "--json", "--time", str(time), "--at", at]

    return command


def _deck_in_c(program: Path, deck: Path) -> Callable[[str, str, float, tuple[int, ...]], list[str]]:
    started = _simple(program)
    return lambda benchmark, cpus, time, points: [str(deck), "run", "-n", "2", *started(benchmark, cpus, time, points)]


# The UCX layer of Open MPI 5 is its fastest on one host, but it wants to be told that no network card is needed; ob1 over shared
# memory is what users get without asking.
_UCX = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
_OB1 = ["--mca", "pml", "ob1"]
_OPENMPI = {"openmpi": _UCX, "openmpi-ob1": _OB1}


def _made(name: str) -> Participant:
    by_threads = name.endswith("-threads")
    how = name.removesuffix("-threads")
    stream = {"STREAM": "isend"} if how.endswith("-isend") else {}
    yielding = {"YIELD": "1"} if how.endswith("-yield") else {}
    base = how.removesuffix("-isend").removesuffix("-yield")
    if name == "deck":
        return Participant(name, _deck(installing.deck()))
    if name in measures.IN_C:
        environment = {"CONTENT": "in-place" if name.endswith("-in-place") else "packed"}
        return Participant(name, _deck_in_c(installing.deck_in_c(), installing.deck()), environment)
    if name in installing.RING_VARIANTS:
        return Participant(name, _simple(installing.ring(name)))
    if name == "futex":
        return Participant(name, _simple(installing.futex()))
    if base in _OPENMPI:
        program, library = installing.mpi_peer("openmpi")
        options = [*library.options, *_OPENMPI[base], *(library.to_yield if yielding else ()), "-x", "UCX_TLS", "-x", "STREAM"]
        environment = {**library.environment, "UCX_TLS": "self,shm", "STREAM": "send", **stream}
        return Participant(name, _mpi(program, library.launcher, options, by_threads), environment)
    if base in ("mpich", "intelmpi"):
        program, library = installing.mpi_peer(base)
        # It counts processes, not threads, to find out whether there are more than cores.
        threaded = {"I_MPI_THREAD_YIELD": "2"} if base == "intelmpi" and by_threads else {}
        environment = {**library.environment, **stream, **threaded}
        return Participant(name, _mpi(program, library.launcher, [], by_threads), environment)
    if base in ("ucx-tag", "ucx-am"):
        return Participant(name, _simple(installing.ucx()), {"API": base.removeprefix("ucx-"), **yielding})
    if base in ("iceoryx2", "zeromq"):
        return Participant(name, _simple(installing.rust_peers() / base), yielding)
    return Participant(name, _simple(installing.rust_peers() / "channels"), {"CHANNEL": name})


def prepare(names: list[str]) -> tuple[dict[str, Participant], dict[str, str]]:
    """Those that can be measured here, and for all others the reason why not."""
    ready, missing = {}, {}
    for name in names:
        try:
            ready[name] = _made(name)
        except installing.Unavailable as reason:
            missing[name] = str(reason)
    return ready, missing


def _beside(what: str) -> list[str]:
    """DECK's figures beside which a peer's stands: long blocks of collectives are measured in the program's memory and in messages,
    short ones where all are waited for and where a call ends with the member's own part, which is all one to MPI."""
    if what.endswith(", 1 MiB"):
        return [what, f"{what}, in messages"]
    return [what, f"{what}, own part"] if what.removeprefix(measures.THREADS) in measures.OWN_PART else [what]


def figures_of(name: str, output: str) -> list[Figure]:
    """Reads what a participant has printed."""
    if name != "deck":
        lines = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
        return [
            Figure(what, line["at"], line["unit"], float(line["value"])) for line in lines for what in _beside(line["what"])
        ]
    report = json.loads(output)
    if "sizes" in report:
        return [
            Figure(what, row["bytes"], "ns", row[what]["median_ns"])
            for row in report["sizes"]
            for what in ("untouched", "touched")
        ]
    return [Figure(row["what"], row["at"], row["unit"], row["median"]) for row in report["figures"]]
