"""The report of a run: what the papers say, what came out here, and every median."""

from pathlib import Path
from statistics import median

from experiments import judging
from experiments.running import QUIET, Record
from experiments.trials import EXPERIMENTS, Experiment, halo_bytes


def _table(records: list[Record], experiment: Experiment) -> list[str]:
    is_laplace = experiment.name == "laplace"
    heads = ["point", *(["bytes of a message"] if is_laplace else []), *(f"{one}, s" for one in experiment.participants)]
    heads += ["DECK over best MPI", "goal", ""]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for point, found, verdict in judging.versus(records, experiment):
        medians = [judging.times(records, experiment, one, point).values() for one in experiment.participants]
        goal = judging.goal_of(experiment, point)
        cells = [point, *([str(halo_bytes(point))] if is_laplace else [])]
        cells += [f"{median(values):.3f}" if values else "" for values in medians]
        cells += [judging.shown(found), f"at most {goal:g}" if goal else "", verdict]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def write(folder: Path, records: list[Record], described: dict[str, str]) -> Path:
    """Writes README.md into the folder."""
    lines = ["# The papers' applications beside their MPI twins", ""]
    lines += [f"* {name}: {value}" for name, value in described.items()]
    for experiment in EXPERIMENTS:
        mine = [record for record in records if record.experiment == experiment.name]
        if not mine:
            continue
        rounds = max(record.round for record in mine) + 1
        disturbed = sum(not record.is_steady for record in mine)
        lines += ["", f"## {experiment.name}", ""]
        lines += [f"*The papers*: {'; '.join(experiment.claims)}.", ""]
        lines += [f"Points are {experiment.what_points_are}. {rounds} rounds; medians of seconds; ratios within a round, their median"]
        lines += ["and its 95 % interval (or their range, with fewer than six). Left out are"]
        lines += [f"{disturbed} of {len(mine)} runs, in which others took more than {QUIET:.0%} of the machine.", ""]
        lines += _table(records, experiment)
        if experiment.name == "mandelbrot":
            lines += ["", "Shape over slices:", "", *(f"* {line}" for line in judging.shape(records, experiment))]
    report = folder / "README.md"
    report.write_text("\n".join(lines) + "\n")
    return report
