"""From times to sentences: does what the papers saw come out here?"""

from collections.abc import Iterable
from statistics import median

from comparison.ratios import Estimate, estimate, verdict

from experiments.running import Record
from experiments.trials import DECK, ZERO_COPY_FROM, Experiment, halo_bytes

# The papers' applications were as fast as with MPI; so much is noise.
PARITY = 1.02


def times(records: list[Record], experiment: Experiment, participant: str, point: str) -> dict[int, float]:
    """Seconds by round, of runs that nobody disturbed."""
    return {
        record.round: record.seconds
        for record in records
        if (record.experiment, record.participant, record.point) == (experiment.name, participant, point) and record.is_steady
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
        yield point, found, verdict(found, goal, True) if found and goal else "no claim"


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
