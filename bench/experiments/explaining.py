"""Why a goal is missed or a shape does not show, as far as the run's own times tell."""

from math import ceil
from statistics import median, quantiles

from comparison.ratios import Estimate, Verdict

from experiments import judging
from experiments.folder import Record
from experiments.trials import DECK, ONE_NODE, Experiment, computing

# More turns than this are no advice.
MANY = 10_000
# What a run's description calls the time that POV-Ray takes for next to nothing.
START = "POV-Ray's start"


def duration(seconds: float) -> str:
    """As people read it."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.2f} us"


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def spread(values: list[float]) -> float:
    """How far the middle half reaches, as a share of the median."""
    if len(values) < 2:
        return 0.0
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / middle


def reasons(records: list[Record], experiment: Experiment, described: dict[str, str]) -> list[str]:
    """A line for each point where the goal is not reached for certain."""
    lines = []
    for found in judging.versus(records, experiment):
        point, goal = found.point, judging.goal_of(experiment, found.point)
        if found.ratio and goal and found.verdict is not Verdict.REACHED:
            words = [_noise(records, experiment, point, found.ratio, goal), _others(records, experiment, point)]
            words += [_difference(records, experiment, point), _handing_out(records, experiment, point, described)]
            words += [_layout(records, experiment, point)]
            lines.append(f"{point} ({found.marked.replace('*', '')}): {'; '.join(word for word in words if word)}.")
    return lines


def _noise(records: list[Record], experiment: Experiment, point: str, found: Estimate, goal: float) -> str:
    """Whether what is between the median and the goal is more than what is between one turn and the next."""
    best = judging.best_mpi(records, experiment, point)
    each = list(judging.ratios(*(judging.times(records, experiment, one, point) for one in (DECK, best))).values())
    away = abs(found.median - goal)
    told = f"the median is {away:.1%} {'above' if found.median > goal else 'below'} the goal"
    if found.is_range:
        return f"{told}, of {counted(found.count, 'turn')}, too few for an interval"
    told += f", the middle half of the turns spreads over {spread(each):.1%}"
    if not found.low <= goal < found.high:
        return f"{told}, and the whole interval is above the goal: this is not noise"
    # An interval becomes narrower with the root of the number of turns.
    wanted = found.count * ((found.high - found.low) / 2 / max(away, 1e-9)) ** 2
    advice = f"; about {ceil(wanted)} turns as noisy as these would tell" if found.count < wanted < MANY else ""
    return f"{told}, and the interval is on both sides of the goal: noise decides{advice}"


def _others(records: list[Record], experiment: Experiment, point: str) -> str:
    """How much of the machine was not there, if that was too much."""
    mine = [one.others for one in records if (one.experiment, one.point) == (experiment.name, point)]
    return f"others took {median(mine):.0%} of the machine meanwhile" if judging.is_disturbed(records, experiment, point) else ""


def _medians(records: list[Record], experiment: Experiment, point: str) -> dict[str, float]:
    found = {one: list(judging.times(records, experiment, one, point).values()) for one in experiment.participants}
    return {one: median(values) for one, values in found.items() if values}


def _difference(records: list[Record], experiment: Experiment, point: str) -> str:
    """What is between DECK and MPI within a turn, as the ratios are, shared out among the parts of the work."""
    parts, best = experiment.parts(point), judging.best_mpi(records, experiment, point)
    own, others = (judging.times(records, experiment, one, point) for one in (DECK, best))
    each = [own[turn] - others[turn] for turn in own if turn in others]
    if parts is None or not each:
        return ""
    count, name = parts
    more = median(each)
    return f"DECK takes {duration(abs(more) / count)} {'more' if more > 0 else 'less'} than '{best}' for each of {count} {name}s"


def _handing_out(records: list[Record], experiment: Experiment, point: str, described: dict[str, str]) -> str:
    """How coarsely the work is handed out. Who waits for whom at the end it does not say: parts are not equal."""
    parts, found = experiment.parts(point), _medians(records, experiment, point)
    if not experiment.is_handed_out or parts is None or DECK not in found:
        return ""
    count, name = parts
    one = found[DECK] * computing(int(described.get("cores", 1))) / count
    return f"an average {name} takes {duration(one)} of a core, {one / found[DECK]:.1%} of the run"


def _layout(records: list[Record], experiment: Experiment, point: str) -> str:
    """What is gone where all threads are in one process: the way from one process to another."""
    own, one_node = (judging.times(records, experiment, one, point) for one in (DECK, ONE_NODE))
    found = judging.ratio(one_node, own)
    return f"threads of one node take {judging.shown(found)} of the time of a node for each core" if found else ""


def shapelessness(records: list[Record], experiment: Experiment, participant: str, described: dict[str, str]) -> str:
    """What would have to be seen at the ends of the curve, and how much of it noise hides."""
    first, *inner, last = experiment.points
    curve = {point: list(judging.times(records, experiment, participant, point).values()) for point in experiment.points}
    if not all(curve.values()):
        return "not all points were measured"
    middles = {point: median(values) for point, values in curve.items()}
    between, cores = median(middles[point] for point in inner), computing(int(described.get("cores", 1)))
    few, many, middle = int(first), int(last), median(int(point) for point in inner)
    each = (middles[last] - between) * cores / (many - middle)
    noise = median(spread(values) for values in curve.values())
    return (
        f"at {first} an average slice is {min(1.0, cores / few):.1%} of the run; at {last} each further slice takes "
        f"{'' if each >= 0 else '-'}{duration(abs(each))} of a core, in all {middles[last] / between - 1:+.1%}; "
        f"times at one point spread over {noise:.1%} (middle half)"
    )


def starting(records: list[Record], experiment: Experiment, described: dict[str, str]) -> str:
    """How much of the farm's time is POV-Ray's start, which nobody shares out."""
    if START not in described:
        return ""
    start, cores, told = float(described[START].split()[0]), computing(int(described["cores"])), []
    for point in experiment.points:
        found, (count, _) = _medians(records, experiment, point), experiment.parts(point) or (1, "")
        if DECK in found:
            told.append(f"{ceil(count / cores) * start / found[DECK]:.0%} of DECK's time with {point} slices")
    return f"Each slice starts POV-Ray anew, {described[START]}: {', '.join(told)}. All else is rendering and handing out." if told else ""
