"""bench/papers: builds the applications and their twins, runs them in turn, and says which of the papers' shapes come out here."""

import argparse
import sys
from pathlib import Path

from comparison import machine

from experiments import building, libraries, running, writing
from experiments.trials import EXPERIMENTS


def _arguments() -> argparse.Namespace:
    names = [experiment.name for experiment in EXPERIMENTS]
    claims = "\n".join(f"  {one.name:<13}{'; '.join(one.claims)}" for one in EXPERIMENTS)
    parser = argparse.ArgumentParser(
        prog="bench/papers",
        description="Runs the papers' applications beside their MPI twins, in turn, and checks what the papers saw.",
        epilog=f"Experiments:\n{claims}\n\nbench/experiments/README.md tells how they are run.",
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
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where results go, or go on (bench/runs/<date>-<machine>-papers)")
    parser.add_argument("--report", action="store_true", help="write the report of what is there again, run nothing")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    return options


def main() -> None:
    options = _arguments()
    described = machine.describe()
    described["command"] = " ".join(["bench/papers", *sys.argv[1:]])
    # Times of several libraries do not belong together.
    which = "" if options.mpi == libraries.default() else f"-{options.mpi}"
    folder = options.out or building.BENCH / "runs" / f"{described['date']}-{machine.name(described)}-papers{which}"
    chosen = [one for one in EXPERIMENTS if not options.only or one.name in options.only]
    if not options.report:
        library = libraries.find(options.mpi)
        building.build(library)
        described["MPI"] = library.version
        try:
            for experiment in chosen:
                runs = running.Runs(experiment, library)
                runs.check()
                runs.add(options.rounds, folder)
        except KeyboardInterrupt:
            print("\npapers: interrupted; writing what there is", file=sys.stderr)
    records = running.read(folder)
    if not records:
        sys.exit("papers: nothing was measured")
    print(writing.write(folder, records, described).read_text())


if __name__ == "__main__":
    main()
