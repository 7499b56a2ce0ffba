"""Builds the applications and their MPI twins.

The twins link the applications' own inner loops (bench/twins/kernels): both sides compute with the same code, and what differs is how
they hand out work and exchange results.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from comparison.installing import BENCH, ROOT, TARGET

from experiments.libraries import Library

RELEASE = TARGET / "release"
TWINS = TARGET / "twins"
APPLICATIONS = ("mandelbrot", "laplace", "povray-farm", "scheduler")
COMPILE = ("-std=gnu11", "-O3", "-Wall", "-Wextra")


def twin(library: Library, name: str) -> Path:
    """The twin of an application."""
    return TWINS / library.name / name


def expect_cargo() -> None:
    """Ends the program if nothing can be built."""
    if not shutil.which("cargo"):
        sys.exit("papers: there is no cargo: install rustup")


def _run(*command: str | Path, **environment: str) -> None:
    ended = subprocess.run([str(word) for word in command], env={**os.environ, **environment}, check=False)
    if ended.returncode != 0:
        sys.exit(f"papers: this failed: {' '.join(map(str, command))}")


def build_twins(library: Library) -> None:
    """The applications' inner loops, and the programs around them."""
    kernels = BENCH / "twins/kernels/Cargo.toml"
    _run("cargo", "build", "--quiet", "--release", "--manifest-path", kernels, CARGO_TARGET_DIR=str(TWINS))
    twin(library, "").mkdir(parents=True, exist_ok=True)
    for name in APPLICATIONS:
        source = BENCH / "twins" / f"{name.replace('-', '_')}.c"
        inner_loops = TWINS / "release/libtwins_kernels.a"
        _run(*library.compiler, *COMPILE, source, inner_loops, "-lm", "-o", twin(library, name), **library.environment)


def build(library: Library) -> None:
    """Everything that is not up to date."""
    packages = [word for name in ("deck-cli", *APPLICATIONS) for word in ("-p", name)]
    _run("cargo", "build", "--quiet", "--release", "--manifest-path", ROOT / "Cargo.toml", *packages)
    build_twins(library)
