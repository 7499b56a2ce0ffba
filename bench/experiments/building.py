"""Builds the applications and their MPI twins.

The twins link the applications' own inner loops (bench/twins/kernels): both sides compute with the same code, and what differs is how
they hand out work and exchange results.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
ROOT = BENCH.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RELEASE = TARGET / "release"
TWINS = TARGET / "twins"
APPLICATIONS = ("mandelbrot", "laplace", "povray-farm")
COMPILE = ("-std=gnu11", "-O3", "-Wall", "-Wextra")


def _run(*command: str | Path, **environment: str) -> None:
    ended = subprocess.run([str(word) for word in command], env={**os.environ, **environment}, check=False)
    if ended.returncode != 0:
        sys.exit(f"papers: this failed: {' '.join(map(str, command))}")


def build() -> None:
    """Everything that is not up to date."""
    for tool, package in (("mpicc", "libopenmpi-dev"), ("mpirun", "openmpi-bin"), ("povray", "povray povray-includes")):
        if shutil.which(tool) is None:
            sys.exit(f"papers: {tool} is missing: apt-get install {package}")
    packages = [word for name in ("deck-cli", *APPLICATIONS) for word in ("-p", name)]
    _run("cargo", "build", "--quiet", "--release", "--manifest-path", ROOT / "Cargo.toml", *packages)
    kernels = BENCH / "twins/kernels/Cargo.toml"
    _run("cargo", "build", "--quiet", "--release", "--manifest-path", kernels, CARGO_TARGET_DIR=str(TWINS))
    for name in APPLICATIONS:
        twin = BENCH / "twins" / f"{name.replace('-', '_')}.c"
        _run("mpicc", *COMPILE, twin, TWINS / "release/libtwins_kernels.a", "-lm", "-o", TWINS / name)


def mpi_version() -> str:
    """As `mpirun` tells it."""
    return subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout.splitlines()[0]
