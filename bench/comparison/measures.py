"""What is measured, against whom, and what DECK wants to reach.

An experiment is one benchmark of `deck bench` with some points, run by DECK and by peers in turn. A claim is a sentence about an
experiment that the numbers make true or false.
"""

from dataclasses import dataclass

K, M = 1 << 10, 1 << 20

RINGS = ("ring", "ring-prefetch", "ring-demote", "ring-both", "ring-wide", "ring-wide-both")
# Laid out as DECK's rings and batons are: what is left to gain, beside the goal.
BARE = ("ring-apart", "ring-pause", "baton", "baton-pause")
# DECK as C programs have it, which pack and unpack, or copy to and from where a message has its content: beside the goals, which are for messages
# used as they are.
IN_C = ("deck-c", "deck-c-in-place")
MPI = ("openmpi", "intelmpi", "mpich")
UCX = ("ucx-tag", "ucx-am")
# Collectives whose members are threads of two processes, which meet in memory before one of them calls MPI.
BY_THREADS = ("openmpi-yield-threads", "openmpi-ob1-yield-threads", "intelmpi-threads", "mpich-threads")
# Channels whose receivers wait as DECK's do; and two whose receivers only ever poll.
BLOCKING = ("std", "crossbeam", "kanal", "flume")
CHANNELS = (*BLOCKING, "std-poll", "crossbeam-poll")


@dataclass(frozen=True)
class Experiment:
    name: str
    about: str
    benchmark: str
    points: tuple[int, ...]
    peers: tuple[str, ...] = ()
    # Seconds per point.
    time: float = 0.4
    # Rounds of a full run; less where nothing is compared.
    rounds: int = 15
    # Points that a participant measures in one run, before it is another's turn.
    at_once: int = 1

    @property
    def stages(self) -> list[tuple[int, ...]]:
        """The points of each run."""
        return [self.points[first : first + self.at_once] for first in range(0, len(self.points), self.at_once)]


EXPERIMENTS = (
    Experiment("latency", "one way, short messages", "pingpong", (0, 8, 16, 32, 48, 62), RINGS + BARE + IN_C + MPI + UCX, 0.3, at_once=6),
    Experiment(
        "sizes",
        "one way, all other sizes",
        "pingpong",
        (64, 256, K, 4 * K, 8 * K, 32 * K, 128 * K, M, 4 * M, 16 * M),
        MPI + ("iceoryx2", "ucx-tag"),
        at_once=3,
    ),
    Experiment(
        "rate",
        "8-byte stream, one pair",
        "rate",
        (8,),
        UCX + MPI + ("openmpi-isend", "openmpi-ob1", "intelmpi-isend", "iceoryx2", "zeromq"),
        0.5,
    ),
    Experiment(
        "fan-in",
        "8-byte streams from several nodes into one",
        "fan-in",
        (3, 7),
        MPI + ("openmpi-ob1", "ucx-tag-yield", "ucx-am-yield", "iceoryx2-yield", "zeromq"),
        0.7,
    ),
    Experiment(
        "threads",
        "1 to 8 threads in each of two processes",
        "threads",
        (1, 2, 4, 8),
        (*MPI, "openmpi-yield", "openmpi-ob1-yield", *UCX, "ucx-am-yield", "ucx-tag-yield", "iceoryx2", "iceoryx2-yield", "zeromq"),
        1.0,
    ),
    Experiment(
        "oversubscribed", "more processes than cores", "oversubscribed", (4, 8), ("openmpi", "openmpi-ob1"), 1.0
    ),
    Experiment(
        "collectives-pair", "collectives of two members", "collectives", (2,), MPI + ("openmpi-ob1",), 5.0
    ),
    Experiment(
        "collectives",
        "collectives of more members than cores",
        "collectives",
        (4, 8),
        ("openmpi", "openmpi-ob1", "intelmpi", *BY_THREADS),
        5.0,
    ),
    Experiment("channels", "two threads of one process", "channels", (8,), CHANNELS, 1.0),
    Experiment("wake", "waking one that sleeps", "wake", (10,), ("futex",), 1.0),
    Experiment("shared", "threads of one node post to one mail box", "shared", (1, 2, 4, 8), (), 1.0, 7, at_once=4),
    Experiment("silent", "rings that say nothing", "silent", (2, 250, 1000), (), 1.0, 7, at_once=3),
    Experiment("idle", "a blocked node", "idle", (10,), ("futex",), 1.0, 6),
    Experiment("memory", "what things occupy", "memory", (1000,), (), 1.0, 6),
    Experiment("start", "starting a job", "start", (2, 8, 64), (), 1.0, 7, at_once=3),
)


@dataclass(frozen=True)
class Versus:
    """DECK's figure over that of the best of some peers, at each of some points."""

    experiment: str
    what: str
    points: tuple[int, ...]
    peers: tuple[str, ...]
    goal: float
    is_lower_better: bool = True


@dataclass(frozen=True)
class Itself:
    """DECK's figure at one point over its own at another, in the same run. No `over`: that whose median is the largest over that whose is the smallest."""

    experiment: str
    what: str
    point: int | None
    over: int | None
    goal: float
    is_lower_better: bool = True


@dataclass(frozen=True)
class Limit:
    """DECK's figure alone."""

    experiment: str
    what: str
    point: int
    goal: float
    is_lower_better: bool = True


ALL_PEERS_OF = {experiment.name: experiment.peers for experiment in EXPERIMENTS}
SHORT = EXPERIMENTS[0].points


def _versus_all(experiment: str, what: str, points: tuple[int, ...], goal: float, is_lower_better: bool = True) -> Versus:
    return Versus(experiment, what, points, ALL_PEERS_OF[experiment], goal, is_lower_better)


COLLECTIVES = ("bcast", "reduce", "allreduce", "scan", "gather", "scatter", "allgather", "alltoall")
BLOCKS = ("8 B", "4 KiB", "1 MiB", "1 MiB, in messages")
# How figures of members that are threads begin.
THREADS = "threads: "
# What is also measured where a call ends with the member's own part; MPI's calls always do.
OWN_PART = tuple(f"{kind}, {block}" for kind in ("bcast", "reduce", "gather", "scatter") for block in BLOCKS[:2])


def _collectives() -> tuple[Versus, ...]:
    own = (f"{what}, own part" for what in OWN_PART)
    whats = ("barrier", *(f"{kind}, {block}" for kind in COLLECTIVES for block in BLOCKS), *own)
    pairs = [_versus_all("collectives-pair", what, (2,), 1.0) for what in whats]
    processes = tuple(peer for peer in ALL_PEERS_OF["collectives"] if peer not in BY_THREADS)
    crowded = [Versus("collectives", what, (4, 8), processes, 1.0) for what in whats]
    threads = [Versus("collectives", f"{THREADS}{what}", (4, 8), BY_THREADS, 1.0) for what in whats]
    return (*pairs, *crowded, *threads)


CLAIMS = (
    Versus("latency", "untouched", SHORT, RINGS, 1.20),
    Itself("latency", "untouched", None, None, 1.12),
    Versus("latency", "untouched", (8,), MPI + UCX, 0.72),
    Versus("latency", "touched", (8,), MPI + UCX, 0.72),
    Versus("latency", "untouched", (62,), MPI + UCX, 0.75),
    Versus("latency", "touched", (62,), MPI + UCX, 0.75),
    Versus("sizes", "untouched", (4 * K, 8 * K, 32 * K, 128 * K, M, 4 * M, 16 * M), ("iceoryx2",), 0.40),
    Itself("sizes", "untouched", 16 * M, 4 * K, 1.2),
    _versus_all("sizes", "touched", (64, 256, K), 0.90),
    _versus_all("sizes", "touched", (4 * K, 8 * K, 32 * K, 128 * K), 1.0),
    _versus_all("sizes", "touched", (M,), 0.95),
    _versus_all("sizes", "touched", (4 * M, 16 * M), 1.0),
    _versus_all("rate", "stream", (8,), 2.0, False),
    _versus_all("fan-in", "all senders together", (3, 7), 2.0, False),
    _versus_all("threads", "streams", (1, 2, 4, 8), 2.0, False),
    Itself("threads", "streams", 2, 1, 0.9, False),
    Itself("threads", "streams", 4, 1, 0.9, False),
    Itself("threads", "streams", 8, 1, 0.9, False),
    _versus_all("threads", "ping-pong", (2,), 1.3, False),
    _versus_all("threads", "ping-pong", (4, 8), 1.2, False),
    Limit("threads", "ping-pong, slowest", 2, 0.5, False),
    Limit("threads", "ping-pong, slowest", 4, 0.5, False),
    Limit("threads", "ping-pong, slowest", 8, 0.5, False),
    _versus_all("oversubscribed", "token, one hop", (4, 8), 0.8),
    _versus_all("oversubscribed", "barrier", (4, 8), 1.0),
    *_collectives(),
    Versus("channels", "ping-pong, one way", (8,), BLOCKING, 1.0),
    _versus_all("channels", "stream", (8,), 1.0, False),
    Limit("idle", "processor time", 10, 1.0),
    _versus_all("wake", "median", (10,), 1.5),
    Itself("silent", "ping-pong, one way", 250, 2, 1.1),
    Itself("silent", "ping-pong, one way", 1000, 2, 1.1),
    Itself("shared", "all threads together", 2, 1, 0.7, False),
    Itself("shared", "all threads together", 4, 1, 0.7, False),
    Itself("shared", "all threads together", 8, 1, 0.7, False),
    Limit("memory", "ring, at the owner", 1000, 8192),
    Limit("start", "all have met", 64, 1000),
)
