"""The report of a run: what the papers say, what came out here, and every median."""

from pathlib import Path
from statistics import median

from experiments import judging
from experiments.running import QUIET, Record
from experiments.trials import EXPERIMENTS, Experiment, halo_bytes


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value >= 0.1 else f"{value:.5f}"


def _table(records: list[Record], experiment: Experiment) -> list[str]:
    is_laplace = experiment.name == "laplace"
    # Not every MPI library can be every participant on every machine.
    ran = {record.participant for record in records if record.experiment == experiment.name}
    participants = [one for one in experiment.participants if one in ran]
    heads = ["point", *(["bytes of a message"] if is_laplace else []), *(f"{one}, s" for one in participants)]
    heads += ["DECK over best MPI", "goal", ""]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for point, found, verdict in judging.versus(records, experiment):
        medians = [judging.times(records, experiment, one, point).values() for one in participants]
        goal = judging.goal_of(experiment, point)
        cells = [point, *([str(halo_bytes(point))] if is_laplace else [])]
        cells += [_seconds(median(values)) if values else "" for values in medians]
        cells += [judging.shown(found), f"at most {goal:g}" if goal else "", verdict]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _about_mappings(numa_nodes: str) -> list[str]:
    """What can be seen of the paper's mappings here, and what not."""
    lines = ["Mappings: in a all queues are at producers, in b half of the tasks, in c a sixth. Each run, DECK's and MPI's, was checked task by"]
    lines += ["task: all ran once, in the order of their queues."]
    if numa_nodes == "1":
        lines += ["All nodes are on a host with one memory, where no queue is far from anybody: times cannot show the paper's order here, and none"]
        lines += ["is expected. What a run read and wrote can be priced on the paper's machine, and is."]
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
        lines += [f"Points are {experiment.what_points_are}. {rounds} rounds; medians of seconds;"]
        lines += [f"ratios within a round, their median and its 95 % interval (or their range, with fewer than six). In {disturbed} of {len(mine)} runs others took more than"]
        lines += [f"{QUIET:.0%} of the machine: they are left out, but where fewer than six rounds remain (*disturbed*).", ""]
        lines += _table(records, experiment)
        if experiment.name == "mandelbrot":
            lines += ["", "Shape over slices:", "", *(f"* {line}" for line in judging.shape(records, experiment))]
        if experiment.name == "scheduler":
            lines += ["", *_about_mappings(described.get("NUMA nodes", "")), ""]
            lines += [f"* {line}" for line in judging.mappings(records, experiment)]
    report = folder / "README.md"
    report.write_text("\n".join(lines) + "\n")
    return report
