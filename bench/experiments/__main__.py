"""bench/papers: builds the applications and their twins, runs them in turn, and says which of the papers' shapes come out here."""

import argparse
import shutil
import sys
import time
from pathlib import Path

from comparison import interruption, machine
from comparison.progress import Progress

from experiments import building, explaining, folder, judging, libraries, pictures, running, writing
from experiments.trials import EXPERIMENTS, SCENE


def _arguments() -> argparse.Namespace:
    names = [experiment.name for experiment in EXPERIMENTS]
    claims = "\n".join(f"  {one.name:<13}{'; '.join(one.claims)}" for one in EXPERIMENTS)
    parser = argparse.ArgumentParser(
        prog="bench/papers",
        description="Runs the papers' applications beside their MPI twins, in turn, and checks what the papers saw.",
        epilog=f"Experiments:\n{claims}\n\nbench/experiments/README.md tells how they are run. The exit status is 0 if everything was\n"
        "measured, whatever came out, and 130 or 143 after SIGINT or SIGTERM, when the report has what there is; a program that\n"
        "fails or comes to a wrong result ends the run with another one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=names, metavar="EXPERIMENT", help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="rounds (9); 6 is the least for an interval")
    parser.add_argument(
        "--mpi",
        choices=libraries.NAMES,
        default=libraries.default(),
        help="the twins' MPI: the system's, or one that is fetched into bench/.peers (%(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where results go; if it has some of this commit, machine and MPI, they go on there (bench/runs/<date>-<machine>-papers)",
    )
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="write the report of a run again, measure nothing")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    return options


def _measure(everything: list[running.Runs], rounds: int) -> None:
    """Runs rounds until there are enough steady ones of everything."""
    progress = Progress(None)
    while left := [one for one in everything if one.has_more(rounds)]:
        # Whatever has been measured least comes first, so that a run that is stopped has something of everything.
        runs = min(left, key=lambda one: one.rounds)
        began = time.monotonic()
        made = runs.round(rounds, progress.now)
        seconds = time.monotonic() - began
        each = {one: seconds if one is runs else progress.seconds(one.experiment.name) or seconds for one in left}
        to_do = sum(max(rounds - one.rounds, 0) * each[one] for one in left)
        # Rounds make up for disturbed ones.
        progress.round(runs.experiment.name, runs.rounds, max(rounds, runs.rounds), seconds, judging.summary(made, runs.experiment), to_do)


def main() -> None:
    options = _arguments()
    with interruption.told_by("papers"):
        if options.report:
            _finish(options.report)
        else:
            _run(options)


def _run(options: argparse.Namespace) -> None:
    described = machine.describe("bench/papers")
    # Times of several libraries do not belong together.
    which = "" if options.mpi == libraries.default() else f"-{options.mpi}"
    place = options.out or machine.unused(f"{described['date']}-{machine.name(described)}-papers{which}")
    chosen = [one for one in EXPERIMENTS if not options.only or one.name in options.only]
    # Before minutes of fetching and building.
    folder.expect_writable(place)
    renders = any(one.name == "povray-farm" for one in chosen)
    if renders:
        _expect_renderer()
    building.expect_cargo()
    library = libraries.find(options.mpi)
    described["MPI"] = f"{library.version} ({library.name})"
    folder.expect_the_same(place, described)
    print("papers: building, some minutes if nothing is there yet", file=sys.stderr)
    building.build(library)
    folder.begin(place, described)
    everything = [running.Runs(one, library, place) for one in chosen]
    try:
        # It belongs to the figures that are there: whoever goes on with a folder keeps it.
        if renders and explaining.START not in folder.described_in(place):
            folder.note(place, explaining.START, f"{pictures.start_seconds(SCENE):.2f} s")
        for runs in everything:
            runs.check()
        _measure(everything, options.rounds)
    except KeyboardInterrupt as interrupted:
        is_begun = bool(folder.read(place))
        print(f"\npapers: interrupted; {'writing what there is' if is_begun else 'nothing was measured'}", file=sys.stderr)
        folder.note(place, folder.INTERRUPTED, f"by {interruption.signal_of(interrupted).name}, so not everything was measured")
        if is_begun:
            _finish(place)
        sys.exit(interruption.status(interrupted))
    _finish(place)


def _expect_renderer() -> None:
    for needed, is_there in (("povray", shutil.which("povray")), (SCENE, SCENE.exists())):
        if not is_there:
            sys.exit(f"papers: {needed} is missing: apt-get install povray povray-includes povray-examples")


def _finish(place: Path) -> None:
    described, records = folder.described_in(place), folder.read(place)
    if not records:
        sys.exit("papers: nothing was measured")
    report = writing.write(place, records, described)
    print(report.read_text())
    print(f"papers: this is {report}", file=sys.stderr)


if __name__ == "__main__":
    main()
