"""The folder of a run: the tables, the raw data and, from these, the plots."""

import csv
from pathlib import Path
from statistics import median

from comparison.judging import Judgement
from comparison.measures import EXPERIMENTS, Experiment
from comparison.ratios import Verdict
from comparison.records import Record, Run, unit_of, values


def write(folder: Path, run: Run, judgements: list[Judgement], plots: list[str]) -> None:
    """Writes everything but the plots, which the page shows."""
    run.save(folder)
    _write_figures(folder / "figures.csv", run.records)
    (folder / "README.md").write_text(_page(run, judgements, plots))


def _write_figures(path: Path, records: list[Record]) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["experiment", "what", "at", "unit", "participant", "median", "smallest", "largest", "runs"])
        for experiment in EXPERIMENTS:
            for what, at, participant, found in _all(records, experiment):
                unit = unit_of(records, experiment.name, what)
                row = [median(found), min(found), max(found)]
                table.writerow([experiment.name, what, at, unit, participant, *(f"{one:.6g}" for one in row), len(found)])


def _all(records: list[Record], experiment: Experiment) -> list[tuple[str, int, str, list[float]]]:
    mine = [record for record in records if record.experiment == experiment.name]
    whats = list(dict.fromkeys(figure.what for record in mine for figure in record.figures))
    points = list(dict.fromkeys(figure.at for record in mine for figure in record.figures))
    everybody = list(dict.fromkeys(record.participant for record in mine))
    found = [
        (what, at, one, values(records, experiment.name, one, what, at))
        for what in whats for at in points for one in everybody
    ]
    return [row for row in found if row[3]]


def shown(value: float, unit: str) -> str:
    """A value as people read it."""
    match unit:
        case "ns" if value >= 1e6:
            return f"{value / 1e6:.3g} ms"
        case "ns" if value >= 1e4:
            return f"{value / 1e3:.3g} us"
        case "messages/s" if value >= 1e5:
            return f"{value / 1e6:.3g} M/s"
        case "ns" | "bytes":
            return f"{value:.0f} {unit}"
        case _:
            return f"{value:.3g} {unit}"


def _ratio(judgement: Judgement) -> str:
    found = judgement.ratio
    low, middle, high = (f"{one:.3g}" for one in (found.low, found.median, found.high))
    return f"{middle} ({low} to {high}{', range' if found.is_range else ''})"


def _page(run: Run, judgements: list[Judgement], plots: list[str]) -> str:
    records = run.records
    text = [f"# {run.machine['date']}, {run.machine['processor']}", ""]
    text += [f"* {name}: {what}" for name, what in {**run.machine, **run.versions}.items()]
    text += [
        "",
        "[bench/README.md](../../README.md) says what is measured and how. A ratio is DECK's figure over the other's, measured in "
        "turn: the median of all pairs and its 95 % interval (of fewer than six pairs the range). `raw.json.gz` has every run, "
        "`figures.csv` every median.",
        "",
        "## Where DECK loses",
        "",
        "Furthest off first. *Off by* is how many times better it would have to be.",
        "",
    ]
    lost = sorted((one for one in judgements if one.verdict in (Verdict.MISSED, Verdict.RATHER_MISSED)), key=lambda one: one.margins[1])
    text += [_loss(judgement) for judgement in lost] or ["Nowhere among the goals below."]
    text += ["", "## Goals", "", "| experiment | figure | at | DECK | against | theirs | ratio | goal | | pairs |",
             "|---|---|---:|---:|---|---:|---|---|---|---|"]
    for one in judgements:
        other = "" if one.other is None else shown(one.other, one.unit)
        ratio = "" if one.other is None else _ratio(one)
        pairs = f"{one.ratio.count}{', ' + one.remark if one.remark else ''}"
        text.append(f"| {one.experiment} | {one.what} | {one.at} | {shown(one.own, one.unit)} | {one.against} | {other} | "
                    f"{ratio} | {one.aim} | {one.verdict.marked} | {pairs} |")
    text += ["", "## Plots", ""]
    text += [f"![{name}]({name}.svg)" for name in plots]
    text += ["", "## Every figure (medians)", ""]
    for experiment in EXPERIMENTS:
        text += _figures(records, experiment)
    text += ["## What was left out", ""]
    failures = {
        f"{record.participant} in {record.experiment} at {' '.join(map(str, record.points))}": record.failure
        for record in records if record.failure is not None
    }
    text += [f"* {name}: {reason}" for name, reason in {**run.missing, **failures}.items()] or ["Nothing."]
    return "\n".join(text) + "\n"


def _loss(one: Judgement) -> str:
    off = 1 / one.margins[1] if one.margins[1] else float("inf")
    text = f"* {one.experiment}, {one.what} at {one.at}: off by {off:.2g}; "
    if one.other is None:
        return f"{text}{shown(one.own, one.unit)}, the goal is {one.aim}"
    return f"{text}{_ratio(one)} of {one.against} ({shown(one.own, one.unit)} against {shown(one.other, one.unit)}), the goal is {one.aim}"


def _figures(records: list[Record], experiment: Experiment) -> list[str]:
    rows = _all(records, experiment)
    if not rows:
        return []
    everybody = list(dict.fromkeys(participant for _, _, participant, _ in rows))
    text = [f"### {experiment.name}: {experiment.about}", "", f"| figure | at | {' | '.join(everybody)} |",
            f"|---|---:|{'---:|' * len(everybody)}"]
    cells = {(what, at, participant): median(found) for what, at, participant, found in rows}
    for what, at in dict.fromkeys((what, at) for what, at, _, _ in rows):
        unit = unit_of(records, experiment.name, what)
        shown_cells = [
            shown(cells[what, at, one], unit) if (what, at, one) in cells else "" for one in everybody
        ]
        text.append(f"| {what} | {at} | {' | '.join(shown_cells)} |")
    return [*text, ""]
