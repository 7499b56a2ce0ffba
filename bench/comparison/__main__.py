"""bench/compare: installs the peers, runs them and DECK in turn, writes tables, plots and raw data."""

import argparse
import json
import sys
import time
from pathlib import Path

from comparison import installing, interruption, machine, measures, participants, running, writing
from comparison.judging import judge
from comparison.progress import Progress
from comparison.ratios import Verdict
from comparison.records import Run

# A quick run.
QUICK_ROUNDS, QUICK_TIME = 2, 0.25
# Rounds make up for disturbed pairs, up to so many times the rounds that were asked for.
EXTRA = 2


# What of the options tells which measures a run has, and how many.
ASKED = ("only", "rounds", "quick")


def arguments() -> argparse.Namespace:
    """What was asked for. Ends the program if nobody can ask for that."""
    names = [experiment.name for experiment in measures.EXPERIMENTS]
    about = "\n".join(f"  {experiment.name:<18}{experiment.about}" for experiment in measures.EXPERIMENTS)
    parser = argparse.ArgumentParser(
        prog="bench/compare",
        description="Compares DECK with its peers on this machine. The peers come from the package registries and are built in "
        "bench/.peers (or DECK_PEERS); results go to bench/runs/.",
        epilog=f"Measures:\n{about}\n\nbench/README.md tells what each means. A full run takes two to three hours.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # The command looks for some of them itself, in full.
        allow_abbrev=False,
    )
    parser.add_argument("--quick", action="store_true", help="two rounds of short runs: shows that all works, proves nothing")
    parser.add_argument("--only", action="append", choices=names, metavar="MEASURE", help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each comparison (15)")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no round after so many minutes")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where results go (bench/runs/<date>-<machine>)")
    parser.add_argument("--go-on", type=Path, metavar="FOLDER", help="go on with a run that was stopped, on the same commit")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="write tables and plots of a run again, measure nothing")
    parser.add_argument("--install", action="store_true", help="install and build everything, measure nothing")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds: at least 1")
    for folder in (options.go_on, options.report):
        if folder and not (folder / "raw.json.gz").exists():
            parser.error(f"{folder} has no raw.json.gz: it is not the folder of a run")
    folder = options.out or options.go_on or options.report
    if folder and (reason := machine.unwritable(folder)):
        parser.error(f"{folder} {reason}")
    return options


def as_asked(options: argparse.Namespace) -> argparse.Namespace:
    """What was said; for a run that is to go on what was said when it began, unless that is said anew."""
    asked = Run.load(options.go_on).asked if options.go_on else {}
    said = {name: getattr(options, name) or asked.get(name) for name in ASKED}
    return argparse.Namespace(**{**vars(options), **said})


def _folder(options: argparse.Namespace, described: dict[str, str]) -> Path:
    if options.out:
        return options.out
    return machine.unused(f"{described['date']}-{machine.name(described)}{'-quick' if options.quick else ''}")


def _processors(deck: participants.Participant) -> str:
    """The two processors that DECK takes, which the peers then get as well."""
    output, failure = running.run_limited(deck.command("rate", "", 0.05, (8,)), {}, 60)
    if failure:
        sys.exit(f"compare: deck bench does not run: {failure}")
    cpus = json.loads(output)["cpus"]
    if len(cpus) != 2:
        sys.exit("compare: two processors are needed; this process may use only one")
    return ",".join(map(str, cpus))


def _begun(options: argparse.Namespace, cpus: str, missing: dict[str, str]) -> tuple[Path, Run]:
    """A new run and its folder, or the one that is to go on."""
    described = machine.describe("bench/compare")
    described["processors"] = cpus
    if options.go_on is None:
        asked = {name: getattr(options, name) for name in ASKED}
        return _folder(options, described), Run(described, installing.versions(), missing, [], asked)
    run = Run.load(options.go_on)
    if reason := machine.mixture(run.machine, described):
        sys.exit(f"compare: {options.go_on} {reason}")
    run.machine["command"] += f"; {described['command']}"
    return options.go_on, run


def _measure(options: argparse.Namespace, runner: running.Runner, chosen: list[measures.Experiment], save) -> None:
    """Runs rounds of everything until all is done, or the time is over."""

    def rounds(experiment: measures.Experiment) -> int:
        wanted = options.rounds if options.rounds and experiment.peers else experiment.rounds
        return min(wanted, QUICK_ROUNDS) if options.quick else wanted

    progress = Progress(options.minutes)
    extra = 1 if options.quick else EXTRA
    while left := [one for one in chosen if not runner.is_complete(one, rounds(one), extra)]:
        # Whatever has been measured least comes first, so that a run that is stopped has something of everything.
        experiment = min(left, key=runner.rounds)
        if progress.is_over():
            return
        began = time.monotonic()
        runner.round(experiment, progress.now)
        save()
        done = runner.rounds(experiment)
        to_do = sum(max(rounds(one) - runner.rounds(one), 0) * progress.seconds(one.name) for one in chosen)
        seconds = time.monotonic() - began
        progress.round(experiment.name, done, rounds(experiment), seconds, runner.summary(experiment), to_do)


def main() -> None:
    options = arguments()
    with interruption.told_by("compare"):
        if options.report:
            _finish(options.report, Run.load(options.report))
        else:
            _run(options)


def _run(options: argparse.Namespace) -> None:
    options = as_asked(options)
    chosen = [one for one in measures.EXPERIMENTS if not options.only or one.name in options.only]
    names = list(dict.fromkeys(["deck", "ring", *(peer for one in chosen for peer in one.peers)]))
    ready, missing = participants.prepare(names)
    for name, reason in missing.items():
        print(f"compare: without {name}: {reason}", file=sys.stderr)
    if "deck" in missing:
        sys.exit(1)
    if options.install:
        return

    cpus = _processors(ready["deck"])
    folder, run = _begun(options, cpus, missing)
    runner = running.Runner(ready, cpus, QUICK_TIME if options.quick else 1.0, run.records)
    began = time.monotonic()
    try:
        _measure(options, runner, chosen, lambda: run.save(folder))
    except KeyboardInterrupt:
        print("\ncompare: interrupted; writing what there is", file=sys.stderr)
    if not run.records:
        sys.exit("compare: nothing was measured")
    minutes = float(run.machine.get("minutes", 0)) + (time.monotonic() - began) / 60
    run.machine["minutes"] = f"{minutes:.1f}"
    _finish(folder, run)


def _finish(folder: Path, run: Run) -> None:
    from comparison import plotting

    judgements = judge(run.records)
    writing.write(folder, run, judgements, plotting.plots_of(run.records, judgements))
    plotting.draw(folder, run.records, judgements)
    reached = sum(one.verdict is Verdict.REACHED for one in judgements)
    uncertain = sum(not one.verdict.is_certain for one in judgements)
    print(f"{reached} of {len(judgements)} goals reached, {uncertain} uncertain; see {folder / 'README.md'}")


if __name__ == "__main__":
    main()
