"""Plots, from nothing but the records of a run: latency against size, rate against threads, how far each goal is."""

from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "deck"
import matplotlib.pyplot as plot  # noqa: E402  (the back-end comes first)

from comparison.judging import Judgement  # noqa: E402
from comparison.measures import K, M  # noqa: E402
from comparison.ratios import Verdict  # noqa: E402
from comparison.records import Record  # noqa: E402

# The goals' plot ends here.
WORST, BEST = 0.1, 10
# And it shows no more than fit on a page: those that are hardest to reach.
GOALS_SHOWN = 60

Points = dict[int, float]

# A colour for each library, in all plots; what differs in its configuration is told by the line.
COLOURS = {
    "deck": "black", "best bare ring": "tab:gray", "openmpi": "tab:blue", "intelmpi": "tab:cyan", "mpich": "tab:olive",
    "ucx": "tab:red", "iceoryx2": "tab:green",
}
NAMES = {"deck": "DECK", "deck-c": "DECK in C", "deck-c-in-place": "DECK in C, in place"}
# Several configurations of a library may have the same line.
MARKERS = "os^vDPX*"
STYLES = {"-c": "--", "-in-place": (0, (6, 1, 1, 1)), "-yield": (0, (5, 2)), "-ob1": (0, (1, 1)), "-isend": (0, (3, 1, 1, 1)), "-am": "-.", "-tag": "-"}
SIZES = {0: "0", 8: "8", 64: "64", 512: "512", 4 * K: "4 K", 32 * K: "32 K", 256 * K: "256 K", 2 * M: "2 M", 16 * M: "16 M"}


def draw(folder: Path, records: list[Record], judgements: list[Judgement]) -> None:
    """Draws what these records are enough for."""
    names = plots_of(records, judgements)
    if "goals" in names:
        _goals(folder, judgements)
    if "latency" in names:
        _latency(folder, records)
    if "threads" in names:
        _threads(folder, records)


def plots_of(records: list[Record], judgements: list[Judgement]) -> list[str]:
    """Which plots these records are enough for."""
    measured = {record.experiment for record in records}
    found = {"goals": judgements, "latency": measured & {"latency", "sizes"}, "threads": measured & {"threads"}}
    return [name for name, has_content in found.items() if has_content]


def _curves(records: list[Record], experiments: set[str], what: str) -> dict[str, Points]:
    found: dict[str, dict[int, list[float]]] = {}
    for record in records:
        if record.experiment in experiments and record.failure is None:
            for figure in record.figures:
                if figure.what == what:
                    points = found.setdefault(record.participant, {})
                    points.setdefault(figure.at, []).append(figure.value)
    return {name: {at: median(all_values) for at, all_values in sorted(points.items())} for name, points in found.items()}


def _best_rings(curves: dict[str, Points]) -> dict[str, Points]:
    """The variants of the bare ring are one limit: the best of them at each size."""
    rings = [curves.pop(name) for name in list(curves) if name.startswith("ring")]
    if rings:
        sizes = sorted({at for ring in rings for at in ring})
        curves["best bare ring"] = {at: min(ring[at] for ring in rings if at in ring) for at in sizes}
    return curves


def _lines(axes, curves: dict[str, Points]) -> None:
    of_colour: dict[str, int] = {}
    for name, points in sorted(curves.items(), key=lambda item: (item[0] != "deck", item[0])):
        is_ours = name == "deck"
        colour = next((colour for library, colour in COLOURS.items() if name.startswith(library)), "tab:purple")
        style = next((style for ending, style in STYLES.items() if name.endswith(ending)), "-")
        marker = MARKERS[of_colour.setdefault(colour, 0) % len(MARKERS)]
        of_colour[colour] += 1
        axes.plot(list(points), list(points.values()), marker=marker, markersize=4, label=NAMES.get(name, name),
                  color=colour, linestyle=style, linewidth=2.5 if is_ours else 1.2, zorder=3 if is_ours else 2)
    axes.grid(True, which="major", alpha=0.3)


def _legend(figure, both) -> None:
    for axes in both:
        axes.minorticks_off()
    entries = {label: line for axes in both for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(entries.values(), entries.keys(), loc="outside right upper", fontsize=8)


def _time_ticks(least: float, most: float) -> tuple[list[float], list[str]]:
    """From below the least to above the most time, in nanoseconds, and what they are called."""
    steps = (1, 2, 5) if most < 30 * least else (1,)
    all_of_them = [step * 10**power for power in range(11) for step in steps]
    first = max((i for i, tick in enumerate(all_of_them) if tick <= least), default=0)
    last = next((i for i, tick in enumerate(all_of_them) if tick >= most), len(all_of_them) - 1)
    ticks = all_of_them[first : last + 1]
    unit = lambda tick: next((size, name) for size, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")) if tick >= size)
    return ticks, [f"{tick / unit(tick)[0]:g} {unit(tick)[1]}" for tick in ticks]


def _latency(folder: Path, records: list[Record]) -> None:
    figure, both = plot.subplots(1, 2, figsize=(12, 4.8), sharey=True, layout="constrained")
    titles = {"untouched": "handed over untouched", "touched": "each byte written and read"}
    for axes, (what, title) in zip(both, titles.items(), strict=True):
        curves = _best_rings(_curves(records, {"latency", "sizes"}, what))
        _lines(axes, curves)
        axes.set(title=title, xlabel="bytes", yscale="log")
        axes.set_xscale("symlog", base=2, linthresh=8)
        largest = max(at for points in curves.values() for at in points)
        sizes = {at: size for at, size in SIZES.items() if at <= 1.5 * largest}
        axes.set_xticks(list(sizes), list(sizes.values()))
        axes.set_xlim(-1, 1.5 * largest)
        times = [time for points in curves.values() for time in points.values()]
        axes.set_yticks(*_time_ticks(min(times), max(times)))
    both[0].set_ylabel("one way")
    _legend(figure, both)
    _save(figure, folder / "latency.svg")


def _threads(folder: Path, records: list[Record]) -> None:
    figure, both = plot.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    for axes, what in zip(both, ("streams", "ping-pong"), strict=True):
        _lines(axes, _curves(records, {"threads"}, what))
        axes.set(title=f"{what}, two processes", xlabel="threads in each", xscale="log", yscale="log")
        axes.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        axes.set_yticks([1e4, 1e5, 1e6, 1e7], ["10 k/s", "100 k/s", "1 M/s", "10 M/s"])
    both[0].set_ylabel("8-byte messages")
    both[1].sharey(both[0])
    _legend(figure, both)
    _save(figure, folder / "threads.svg")


def _goals(folder: Path, judgements: list[Judgement]) -> None:
    """How many times as good as its goal each figure is: right of the line is better."""
    rows = sorted(judgements, key=lambda one: one.margins[1])[:GOALS_SHOWN][::-1]
    which = "" if len(rows) == len(judgements) else f": the {len(rows)} hardest of {len(judgements)}"
    figure, axes = plot.subplots(figsize=(9, 0.9 + 0.19 * len(rows)), layout="constrained")
    for place, one in enumerate(rows):
        # What lies outside is drawn at the border.
        low, middle, high = (min(max(margin, WORST), BEST) for margin in one.margins)
        colour = {Verdict.REACHED: "tab:green", Verdict.MISSED: "tab:red"}.get(one.verdict, "tab:orange")
        axes.plot([low, high], [place, place], color=colour, linewidth=2)
        axes.plot([middle], [place], marker="o", markersize=4, color=colour)
        for end, beyond, marker in ((WORST, one.margins[0] < WORST, "<"), (BEST, one.margins[2] > BEST, ">")):
            if beyond:
                axes.plot([end], [place], marker=marker, markersize=5, color=colour)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(rows)), [_label(one) for one in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set(xscale="log", xlim=(WORST / 1.1, BEST * 1.1))
    figure.suptitle(f"How many times as good as the goal{which}")
    axes.set_xlabel("median and 95 % interval; green: reached, red: missed, orange: uncertain", fontsize=8)
    ticks = [0.125, 0.25, 0.5, 1, 2, 4, 8]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(True, axis="x", alpha=0.3)
    _save(figure, folder / "goals.svg")


def _label(one: Judgement) -> str:
    against = f" / {one.against}" if one.against else ""
    return f"{one.experiment}, {one.what} at {one.at}{against} ({one.aim})"


def _save(figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plot.close(figure)
