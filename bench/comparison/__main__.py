"""bench/compare: installs the peers, runs them and DECK in turn, writes tables, plots and raw data."""

import argparse
import json
import sys
import time
from pathlib import Path

from comparison import installing, machine, measures, participants, plotting, running, writing


def _arguments() -> argparse.Namespace:
    names = [experiment.name for experiment in measures.EXPERIMENTS]
    about = "\n".join(f"  {experiment.name:<16}{experiment.about}" for experiment in measures.EXPERIMENTS)
    parser = argparse.ArgumentParser(
        prog="bench/compare",
        description="Compares DECK with its peers on this machine. The peers come from the package registries and are built in "
        "bench/.peers (or DECK_PEERS); results go to bench/runs/.",
        epilog=f"Measures:\n{about}\n\nbench/README.md tells what each means. A full run takes about 50 minutes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="three rounds of short runs: shows that all works, proves nothing")
    parser.add_argument("--only", action="append", choices=names, metavar="MEASURE", help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each comparison (15)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where results go (bench/runs/<date>-<machine>)")
    parser.add_argument("--install", action="store_true", help="install and build everything, measure nothing")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw the plots of an earlier run again, do nothing else")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds: at least 1")
    return options


def _folder(options: argparse.Namespace, described: dict[str, str]) -> Path:
    if options.out:
        return options.out
    base = installing.BENCH / "runs" / f"{described['date']}-{machine.name(described)}{'-quick' if options.quick else ''}"
    folder, number = base, 2
    while folder.exists():
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    return folder


def _processors(deck: participants.Participant) -> str:
    """The two processors that DECK takes, which the peers then get as well."""
    output, failure = running.run_limited(deck.command("rate", "", 0.05, (8,)), {}, 60)
    if failure:
        sys.exit(f"compare: deck bench does not run: {failure}")
    cpus = json.loads(output)["cpus"]
    if len(cpus) != 2:
        sys.exit("compare: two processors are needed; this process may use only one")
    return ",".join(map(str, cpus))


def main() -> None:
    options = _arguments()
    if options.plots:
        plotting.draw(options.plots)
        return
    chosen = [one for one in measures.EXPERIMENTS if not options.only or one.name in options.only]
    names = list(dict.fromkeys(["deck", "ring", *(peer for one in chosen for peer in one.peers)]))
    ready, missing = participants.prepare(names)
    for name, reason in missing.items():
        print(f"compare: without {name}: {reason}", file=sys.stderr)
    if "deck" in missing:
        sys.exit(1)
    if options.install:
        return

    described = machine.describe()
    described["processors"] = cpus = _processors(ready["deck"])
    folder = _folder(options, described)
    runner = running.Runner(ready, cpus, 0.25 if options.quick else 1.0)
    began = time.monotonic()
    try:
        for experiment in chosen:
            rounds = options.rounds if options.rounds and experiment.peers else experiment.rounds
            runner.experiment(experiment, min(rounds, 3) if options.quick else rounds)
    except KeyboardInterrupt:
        print("\ncompare: interrupted; writing what there is", file=sys.stderr)
    if not runner.records:
        sys.exit("compare: nothing was measured")
    described["duration"] = f"{(time.monotonic() - began) / 60:.0f} min"
    judgements = writing.write(folder, runner.records, described, installing.versions(), missing)
    plotting.draw(folder)
    reached = sum("reached" in one.verdict for one in judgements)
    print(f"{reached} of {len(judgements)} goals reached; see {folder / 'README.md'}")


if __name__ == "__main__":
    main()
