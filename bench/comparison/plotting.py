"""Plots, from nothing but the raw data of a run: latency against size, rate against threads."""

import gzip
import json
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "deck"
import matplotlib.pyplot as plot  # noqa: E402  (the back-end comes first)

Points = dict[int, float]


def draw(folder: Path) -> None:
    """Draws what the raw data of this folder are enough for."""
    with gzip.open(folder / "raw.json.gz") as file:
        records = json.load(file)["records"]
    measured = {record["experiment"] for record in records}
    if measured & {"latency", "sizes"}:
        _latency(folder, records)
    if "threads" in measured:
        _threads(folder, records)


def _curves(records: list[dict], experiments: set[str], what: str) -> dict[str, Points]:
    found: dict[str, dict[int, list[float]]] = {}
    for record in records:
        if record["experiment"] in experiments and record["failure"] is None:
            for figure in record["figures"]:
                if figure["what"] == what:
                    points = found.setdefault(record["participant"], {})
                    points.setdefault(figure["at"], []).append(figure["value"])
    return {name: {at: median(all_values) for at, all_values in sorted(points.items())} for name, points in found.items()}


def _best_rings(curves: dict[str, Points]) -> dict[str, Points]:
    """The variants of the bare ring are one limit: the best of them at each size."""
    rings = [curves.pop(name) for name in list(curves) if name.startswith("ring")]
    if rings:
        sizes = sorted({at for ring in rings for at in ring})
        curves["best bare ring"] = {at: min(ring[at] for ring in rings if at in ring) for at in sizes}
    return curves


def _lines(axes, curves: dict[str, Points]) -> None:
    for name, points in sorted(curves.items(), key=lambda item: item[0] != "deck"):
        is_ours = name == "deck"
        axes.plot(list(points), list(points.values()), marker="o", markersize=3, label="DECK" if is_ours else name,
                  linewidth=2.5 if is_ours else 1, color="black" if is_ours else None, zorder=3 if is_ours else 2)
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=7)


def _latency(folder: Path, records: list[dict]) -> None:
    figure, both = plot.subplots(1, 2, figsize=(11, 4.5), sharey=True, layout="constrained")
    titles = {"untouched": "handed over", "touched": "each byte written and read"}
    for axes, (what, title) in zip(both, titles.items(), strict=True):
        _lines(axes, _best_rings(_curves(records, {"latency", "sizes"}, what)))
        axes.set(title=title, xlabel="bytes", yscale="log")
        axes.set_xscale("symlog", base=2, linthresh=8)
    both[0].set_ylabel("one way, ns")
    _save(figure, folder / "latency.svg")


def _threads(folder: Path, records: list[dict]) -> None:
    figure, both = plot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for axes, what in zip(both, ("streams", "ping-pong"), strict=True):
        curves = _curves(records, {"threads"}, what)
        _lines(axes, {name: {at: rate / 1e6 for at, rate in points.items()} for name, points in curves.items()})
        axes.set(title=f"{what}, two processes", xlabel="threads in each", ylabel="million messages/s", yscale="log")
        axes.set_xticks([1, 2, 4, 8])
    _save(figure, folder / "threads.svg")


def _save(figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plot.close(figure)
