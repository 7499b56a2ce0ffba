"""From times to sentences: does what the papers saw come out here?"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from comparison.ratios import LEAST, Estimate, Verdict, estimate, verdict

from experiments.folder import Record
from experiments.trials import DECK, OURS, ZERO_COPY_FROM, Experiment, halo_bytes

# The papers' applications were as fast as with MPI; so much is noise.
PARITY = 1.02
# The scheduler's mappings in the paper's Table I: milliseconds on its cluster, and what its simulator gave.
TABLE_1 = {"a": (1133, 424), "b": (1010, 392), "c": (890, 365)}
# How far simulated and measured proportions were from one another there.
MARGIN = 0.1


def is_disturbed(records: list[Record], experiment: Experiment, point: str) -> bool:
    """Whether there are too few turns at a point in which nobody disturbed anybody: then all count, and that is said."""
    mine = [one for one in records if (one.experiment, one.point) == (experiment.name, point)]
    steady = {number for number in {one.turn for one in mine} if all(one.is_steady for one in mine if one.turn == number)}
    return len(steady) < LEAST and not all(one.is_steady for one in mine)


def whole_turns(records: list[Record], experiment: Experiment, point: str) -> int:
    """In how many turns everybody ran who takes part here."""
    mine = [one for one in records if one.experiment == experiment.name]
    everybody = {one.participant for one in mine}
    ran = [one.turn for one in mine if one.point == point]
    return sum(ran.count(turn) == len(everybody) for turn in set(ran))


def times(records: list[Record], experiment: Experiment, participant: str, point: str) -> dict[int, float]:
    """Seconds by turn, of runs that nobody disturbed, if there are enough of them."""
    everything_counts = is_disturbed(records, experiment, point)
    return {
        one.turn: one.seconds
        for one in records
        if (one.experiment, one.participant, one.point) == (experiment.name, participant, point)
        and (one.is_steady or everything_counts)
    }


def ratios(over: dict[int, float], under: dict[int, float]) -> dict[int, float]:
    """Of each turn."""
    return {turn: over[turn] / under[turn] for turn in over if turn in under}


def ratio(over: dict[int, float], under: dict[int, float]) -> Estimate | None:
    """The median of ratios within a turn."""
    both = ratios(over, under)
    return estimate(list(both.values())) if both else None


def best_mpi(records: list[Record], experiment: Experiment, point: str) -> str:
    """The MPI configuration with the best median at a point."""
    others = [participant for participant in experiment.participants if participant not in OURS]
    found = {other: median(values) for other in others if (values := times(records, experiment, other, point).values())}
    return min(found, key=found.__getitem__, default=others[0])


def shown(found: Estimate | None) -> str:
    """A median with its interval, or its range where there are too few values for one."""
    if found is None:
        return "not measured"
    return f"{found.median:.3f} [{found.low:.3f}, {found.high:.3f}]{' range' if found.is_range else ''}"


def beside_mpi(records: list[Record], experiment: Experiment, point: str, participant: str = DECK) -> Estimate | None:
    """The time of one of ours over that of the best MPI."""
    found = _ratios_beside_mpi(records, experiment, point, participant)
    return estimate(list(found.values())) if found else None


def _ratios_beside_mpi(records: list[Record], experiment: Experiment, point: str, participant: str) -> dict[int, float]:
    best = best_mpi(records, experiment, point)
    return ratios(times(records, experiment, participant, point), times(records, experiment, best, point))


@dataclass(frozen=True)
class Beside:
    """DECK beside the best MPI at a point."""

    point: str
    # DECK's time over MPI's; none where one of them was not measured.
    ratio: Estimate | None
    # None where nothing is claimed, or measured.
    verdict: Verdict | None
    is_disturbed: bool

    @property
    def marked(self) -> str:
        """The verdict in a table."""
        said = self.verdict.marked if self.verdict else "no claim"
        return f"{said}, disturbed" if self.is_disturbed else said


def versus(records: list[Record], experiment: Experiment) -> Iterable[Beside]:
    """DECK beside the best MPI at each point."""
    for point in experiment.points:
        found = beside_mpi(records, experiment, point)
        goal = goal_of(experiment, point)
        said = verdict(found, goal, is_lower_better=True) if found and goal else None
        yield Beside(point, found, said, found is not None and is_disturbed(records, experiment, point))


def summary(records: list[Record], experiment: Experiment) -> str:
    """How a round went."""
    found = [one.ratio.median for one in versus(records, experiment) if one.ratio]
    disturbed = sum(not one.is_steady for one in records)
    told = f"DECK took {min(found):.2f} to {max(found):.2f} of MPI's time" if found else "nothing to compare"
    return f"{told}, {disturbed} of {len(records)} runs disturbed" if disturbed else told


def goal_of(experiment: Experiment, point: str) -> float | None:
    """What the ratio may be at most."""
    if experiment.name != "laplace":
        return PARITY
    return 1.0 if halo_bytes(point) > ZERO_COPY_FROM else None


def across_the_threshold(records: list[Record], experiment: Experiment) -> str:
    """Whether DECK gains where the papers say why: with messages that are handed over rather than copied."""
    # Only points with as much work are alike but for the length of their messages.
    curve = {point: _ratios_beside_mpi(records, experiment, point, DECK) for point in experiment.points if experiment.parts(point)}
    everywhere = set.intersection(*(set(found) for found in curve.values()))
    if not everywhere:
        return ""
    copied, handed_over = ([point for point in curve if (halo_bytes(point) > ZERO_COPY_FROM) is is_large] for is_large in (False, True))
    ranges = []
    for points, how in ((copied, "copied"), (handed_over, "handed over")):
        medians = [median(curve[point].values()) for point in points]
        ranges.append(f"{min(medians):.3f} to {max(medians):.3f} of MPI's time where messages are {how}")
    over, under = ({turn: median(curve[point][turn] for point in points) for turn in everywhere} for points in (handed_over, copied))
    gain = estimate(list(ratios(over, under).values()))
    word = "too few turns" if gain.is_range else {"shorter": "ahead", "longer": "behind"}.get(_apart(gain), "not told apart")
    if any(is_disturbed(records, experiment, point) for point in curve):
        word += ", disturbed"
    told = f"{', '.join(ranges)}; within a turn the middle of the latter is {shown(gain)} of that of the former: **{word}**"
    return f"With as many points and sweeps everywhere DECK takes {told}"


def shape(records: list[Record], experiment: Experiment) -> dict[str, tuple[str, str]]:
    """Whether the curve over the points is U-shaped, and why, for each participant: both ends above the median of the points between.
    Which of these is the lowest is not asked: the lowest of several noisy values is too low, and everything lies above it."""
    first, *inner, last = experiment.points
    said = {}
    for participant in experiment.participants:
        curve = {point: times(records, experiment, participant, point) for point in experiment.points}
        if not any(curve.values()):
            continue
        everywhere = set.intersection(*(set(found) for found in curve.values()))
        between = {turn: median(curve[point][turn] for point in inner) for turn in everywhere}
        ends = {end: ratio(curve[end], between) for end in (first, last)}
        words = [_above(found) for found in ends.values()]
        word = "no" if "not above" in words else "yes" if set(words) == {"above"} else "not decided"
        if any(is_disturbed(records, experiment, point) for point in experiment.points):
            word += ", disturbed"
        told = zip(ends.items(), words, strict=True)
        middle = "of the median of the points between"
        sentences = (f"{end} {experiment.what_points_are} take {shown(found)} {middle}, {where}" for (end, found), where in told)
        said[participant] = word, "; ".join(sentences)
    return said


def _above(found: Estimate | None) -> str:
    """On which side of 1 a ratio of times is for certain."""
    if found is None or found.is_range:
        return "too few turns"
    return "above" if found.low > 1.0 else "not above" if found.high <= 1.0 else "not told apart"


def _apart(found: Estimate | None) -> str:
    """Whether a ratio of times is another one than 1."""
    if found is None or found.low <= 1.0 <= found.high:
        return "not told apart"
    word = "shorter" if found.high < 1.0 else "longer"
    return f"{word}, uncertain" if found.is_range else word


def _costs(records: list[Record], experiment: Experiment, point: str) -> dict[tuple[int, str], float]:
    """What OptiSCI says of each run; others do not disturb what a program reads and writes."""
    mine = [one for one in records if (one.experiment, one.point) == (experiment.name, point)]
    return {(one.turn, one.participant): one.cost_ms for one in mine if one.cost_ms is not None}


def mappings(records: list[Record], experiment: Experiment) -> list[str]:
    """How the mappings of the scheduler compare with the first one: priced on the paper's machine, and in time on this one."""
    first, *others = [point for point in experiment.points if point in TABLE_1]
    lines, priced = [], {}
    for point in others:
        costs, first_costs = _costs(records, experiment, point), _costs(records, experiment, first)
        if both := [cost / first_costs[run] for run, cost in costs.items() if run in first_costs]:
            priced[point] = median(both)
    if len(priced) == len(others):
        measured, simulated = ({point: TABLE_1[point][which] / TABLE_1[first][which] for point in others} for which in (0, 1))
        proportions = [1.0, *priced.values()]
        is_falling = all(one > next_one for one, next_one in zip(proportions, proportions[1:], strict=False))
        is_near = all(abs(found - measured[point]) < MARGIN for point, found in priced.items())
        told = ", ".join(
            f"{point} costs {found:.3f} of {first} (its simulator {simulated[point]:.3f}, its cluster {measured[point]:.3f})"
            for point, found in priced.items()
        )
        word = "as in the paper" if is_falling and is_near else "**not as in the paper**"
        lines.append(f"what the runs read and wrote, priced by OptiSCI on the paper's ring: {told}: {word}")
    for participant in experiment.participants:
        own = {point: times(records, experiment, participant, point) for point in experiment.points}
        ratios = {point: ratio(own[point], own[first]) for point in others}
        if any(ratios.values()):
            told = "; ".join(f"{point} takes {shown(found)} of {first}, {_apart(found)}" for point, found in ratios.items())
            lines.append(f"{participant}, in time: {told}")
    return lines
