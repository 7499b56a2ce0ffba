"""The report of a run: what the papers say, what came out here, and every median."""

from pathlib import Path
from statistics import median

from experiments import explaining, judging
from experiments.folder import QUIET, Record, being_written
from experiments.trials import DECK, EXPERIMENTS, ONE_NODE, Experiment, halo_bytes


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value >= 0.1 else f"{value:.5f}"


def _table(records: list[Record], experiment: Experiment) -> list[str]:
    is_laplace = experiment.name == "laplace"
    # Not every MPI library can be every participant on every machine.
    ran = {record.participant for record in records if record.experiment == experiment.name}
    participants = [one for one in experiment.participants if one in ran]
    heads = ["point", *(["bytes of a message"] if is_laplace else []), *(f"{one}, s" for one in participants)]
    has_layouts = ONE_NODE in participants
    heads += ["DECK over best MPI", "goal", "", *(["one node over best MPI"] if has_layouts else [])]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for found in judging.versus(records, experiment):
        point = found.point
        medians = [judging.times(records, experiment, one, point).values() for one in participants]
        goal = judging.goal_of(experiment, point)
        cells = [point, *([str(halo_bytes(point))] if is_laplace else [])]
        cells += [_seconds(median(values)) if values else "" for values in medians]
        cells += [judging.shown(found.ratio), f"at most {goal:g}" if goal else "", found.marked]
        cells += [judging.shown(judging.beside_mpi(records, experiment, point, ONE_NODE))] if has_layouts else []
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


LAYOUTS = f"""*{DECK}* has a process with one computing thread for each core, as MPI has: goals are for this layout, in which everything that
one core tells another passes between processes, as with MPI. *{ONE_NODE}* is the layout of the papers: one process for each machine,
whose threads share its cores. The papers had several machines; on one nothing then passes between DECK's processes, so it is shown and
not judged."""

# Whoever compares the layouts should not take this for what messages cost.
CLOCKS = f"""The clock of *{DECK}* starts with its manager and includes what the other nodes still take to start and to join; MPI's starts when
all processes have met. This counts against *{DECK}*. *{ONE_NODE}* has no other nodes to wait for."""


def _shape(records: list[Record], experiment: Experiment, described: dict[str, str]) -> list[str]:
    lines = []
    for participant, (word, why) in judging.shape(records, experiment).items():
        line = f"* {participant}: U-shaped: **{word}**. {why}."
        if not word.startswith("yes"):
            line += f" What there is to see: {explaining.shapelessness(records, experiment, participant, described)}."
        lines.append(line)
    return lines


def _why(records: list[Record], experiment: Experiment, described: dict[str, str]) -> list[str]:
    lines = [f"* {line}" for line in explaining.reasons(records, experiment, described)]
    return ["", "Where the goal is not reached for certain, and what the times say about it:", "", *lines] if lines else []


def _about(records: list[Record], experiment: Experiment) -> list[str]:
    """What was run, and what counts."""
    # Points differ: disturbed turns are made up for, and a run may have been stopped.
    turns = sorted(judging.whole_turns(records, experiment, point) for point in experiment.points)
    least, most = turns[0], turns[-1]
    told = explaining.counted(most, "turn") if least == most else f"{least} to {explaining.counted(most, 'turn')}"
    each = f" ({experiment.turns} in a round)" if experiment.turns > 1 else ""
    disturbed = sum(not record.is_steady for record in records)
    lines = [f"*The papers*: {'; '.join(experiment.claims)}.", ""]
    lines += [f"Points are {experiment.what_points_are}. {told}{each} of everybody at each point; medians of seconds;"]
    lines += ["ratios within a turn, their median and its 95 % interval (or their range, with fewer than six)."]
    lines += [f"In {disturbed} of {len(records)} runs others took more than {QUIET:.0%} of the machine: they are left out, but where fewer than six"]
    lines += ["turns remain (*disturbed*)."]
    if experiment.is_handed_out:
        lines += ["", CLOCKS]
    return [*lines, ""]


def write(folder: Path, records: list[Record], described: dict[str, str]) -> Path:
    """Writes README.md into the folder."""
    lines = ["# The papers' applications beside their MPI twins", ""]
    lines += [f"* {name}: {value}" for name, value in described.items()]
    lines += ["", LAYOUTS]
    for experiment in EXPERIMENTS:
        mine = [record for record in records if record.experiment == experiment.name]
        if not mine:
            continue
        lines += ["", f"## {experiment.name}", "", *_about(mine, experiment), *_table(records, experiment)]
        lines += _why(records, experiment, described)
        if experiment.name == "mandelbrot":
            lines += ["", "Shape over slices:", "", *_shape(records, experiment, described)]
        if experiment.name == "laplace" and (told := judging.across_the_threshold(records, experiment)):
            lines += ["", f"{told}."]
        if experiment.name == "povray-farm" and (told := explaining.starting(records, experiment, described)):
            lines += ["", told]
        if experiment.name == "scheduler":
            lines += ["", *_about_mappings(described.get("NUMA nodes", "")), ""]
            lines += [f"* {line}" for line in judging.mappings(records, experiment)]
    report = folder / "README.md"
    with being_written(folder):
        report.write_text("\n".join(lines) + "\n")
    return report
