"""From times to sentences: does what the papers saw come out here?"""

from collections.abc import Iterable
from statistics import median

from comparison.ratios import LEAST, Estimate, estimate, verdict

from experiments.running import Record
from experiments.trials import DECK, ZERO_COPY_FROM, Experiment, halo_bytes

# The papers' applications were as fast as with MPI; so much is noise.
PARITY = 1.02
# The scheduler's mappings in the paper's Table I: milliseconds on its cluster, and what its simulator gave.
TABLE_1 = {"a": (1133, 424), "b": (1010, 392), "c": (890, 365)}
# How far simulated and measured proportions were from one another there.
MARGIN = 0.1


def is_disturbed(records: list[Record], experiment: Experiment, point: str) -> bool:
    """Whether there are too few rounds at a point in which nobody disturbed anybody: then all count, and that is said."""
    mine = [one for one in records if (one.experiment, one.point) == (experiment.name, point)]
    steady = {number for number in {one.round for one in mine} if all(one.is_steady for one in mine if one.round == number)}
    return len(steady) < LEAST and not all(one.is_steady for one in mine)


def times(records: list[Record], experiment: Experiment, participant: str, point: str) -> dict[int, float]:
    """Seconds by round, of runs that nobody disturbed, if there are enough of them."""
    everything_counts = is_disturbed(records, experiment, point)
    return {
        one.round: one.seconds
        for one in records
        if (one.experiment, one.participant, one.point) == (experiment.name, participant, point)
        and (one.is_steady or everything_counts)
    }


def ratio(over: dict[int, float], under: dict[int, float]) -> Estimate | None:
    """The median of ratios within a round."""
    both = [over[number] / under[number] for number in over if number in under]
    return estimate(both) if both else None


def best_mpi(records: list[Record], experiment: Experiment, point: str) -> str:
    """The MPI configuration with the best median at a point."""
    others = [participant for participant in experiment.participants if participant != DECK]
    found = {other: median(values) for other in others if (values := times(records, experiment, other, point).values())}
    return min(found, key=found.__getitem__, default=others[0])


def shown(found: Estimate | None) -> str:
    """A median with its interval, or its range where there are too few values for one."""
    if found is None:
        return "not measured"
    return f"{found.median:.3f} [{found.low:.3f}, {found.high:.3f}]{' range' if found.is_range else ''}"


def versus(records: list[Record], experiment: Experiment) -> Iterable[tuple[str, Estimate | None, str]]:
    """DECK's time over that of the best MPI at each point, and the verdict."""
    for point in experiment.points:
        found = ratio(times(records, experiment, DECK, point), times(records, experiment, best_mpi(records, experiment, point), point))
        goal = goal_of(experiment, point)
        said = verdict(found, goal, True) if found and goal else "no claim"
        yield point, found, f"{said}, disturbed" if found and is_disturbed(records, experiment, point) else said


def goal_of(experiment: Experiment, point: str) -> float | None:
    """What the ratio may be at most."""
    if experiment.name != "laplace":
        return PARITY
    return 1.0 if halo_bytes(point) > ZERO_COPY_FROM else None


def shape(records: list[Record], experiment: Experiment) -> list[str]:
    """Whether both ends of the curve over the points lie above its middle, for each participant."""
    first, *_, last = experiment.points
    lines = []
    for participant in experiment.participants:
        medians = {
            point: median(found.values()) for point in experiment.points if (found := times(records, experiment, participant, point))
        }
        if first not in medians or last not in medians:
            continue
        lowest = min(medians, key=medians.__getitem__)
        ends = []
        for end in (first, last):
            found = ratio(times(records, experiment, participant, end), times(records, experiment, participant, lowest))
            is_above = found is not None and found.low > 1.0 and not found.is_range
            is_level = end == lowest or found is None or found.low <= 1.0
            word = "above the lowest" if is_above else "not told apart from the lowest" if is_level else "above the lowest, uncertain"
            ends.append(f"{end} is {word} ({shown(found)})")
        lines.append(f"{participant}: lowest at {lowest}; {'; '.join(ends)}")
    return lines


def _apart(found: Estimate | None) -> str:
    """Whether a ratio of times is another one than 1."""
    if found is None or found.low <= 1.0 <= found.high:
        return "not told apart"
    word = "shorter" if found.high < 1.0 else "longer"
    return f"{word}, uncertain" if found.is_range else word


def _costs(records: list[Record], experiment: Experiment, point: str) -> dict[tuple[int, str], float]:
    """What OptiSCI says of each run; others do not disturb what a program reads and writes."""
    mine = [one for one in records if (one.experiment, one.point) == (experiment.name, point)]
    return {(one.round, one.participant): one.cost_ms for one in mine if one.cost_ms is not None}


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
