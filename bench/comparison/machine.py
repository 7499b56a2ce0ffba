"""The machine, the commit and the command of a run: a number without these does not exist."""

import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from comparison.installing import BENCH, ROOT

# Figures belong together only where these are the same.
SAME = ("commit", "processor", "cores", "kernel", "rustc", "C compiler", "MPI")


def _git(*words: str) -> str:
    try:
        ended = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except OSError:
        # Whoever has the sources as an archive need not have it.
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


def _first(pattern: str, path: str) -> str:
    try:
        found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    except OSError:
        return "unknown"
    return found.group(1).strip() if found else "unknown"


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()[0]
    except (OSError, IndexError):
        return "unknown"


def describe(program: str) -> dict[str, str]:
    """What is worth knowing of a run of this program, in the order in which it is shown."""
    governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1
    memory_kib = _first(r"^MemTotal:\s*(\d+)", "/proc/meminfo")
    changes = _git("diff", "HEAD")
    mark = f" with changes that are not committed ({hashlib.sha256(changes.encode()).hexdigest()[:8]})" if changes else ""
    return {
        "command": " ".join([program, *sys.argv[1:]]),
        "commit": (_git("rev-parse", "--short=12", "HEAD") or "not told") + mark,
        "date": date.today().isoformat(),
        "processor": _first(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo"),
        "cores": str(len(os.sched_getaffinity(0))),
        "NUMA nodes": str(nodes),
        "memory": f"{int(memory_kib) >> 20} GiB" if memory_kib.isdigit() else memory_kib,
        "kernel": platform.release(),
        "virtual": "yes" if " hypervisor" in Path("/proc/cpuinfo").read_text() else "no",
        "governor": Path(governor).read_text().strip() if Path(governor).exists() else "not told",
        "rustc": _said("rustc", "--version"),
        "C compiler": _said("cc", "--version"),
        "load before": " ".join(Path("/proc/loadavg").read_text().split()[:3]),
    }


def mixture(before: dict[str, str], now: dict[str, str]) -> str | None:
    """What keeps figures of two runs from being put together, if anything does."""
    for what in SAME:
        if before.get(what) != now.get(what):
            told = f"{before.get(what, 'not told')}, not {now.get(what, 'not told')}"
            return f"has another {what} ({told}): its figures cannot be mixed with new ones"
    return None


def name(described: dict[str, str]) -> str:
    """A folder's name for the machine."""
    words = re.sub(r"\(.*?\)|processor|cpu|@.*", " ", described["processor"].lower())
    return "-".join([*re.findall(r"[a-z0-9]+", words)[:4], f"{described['cores']}cores"])


def unused(name: str) -> Path:
    """A folder for a run of this name that is not there yet."""
    folder, number = BENCH / "runs" / name, 2
    while folder.exists():
        folder, number = folder.with_name(f"{name}-{number}"), number + 1
    return folder


def unwritable(folder: Path) -> str | None:
    """What keeps a folder for results from being made, or written to, if anything does. Nothing is left there."""
    try:
        there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
        with tempfile.TemporaryFile(dir=there):
            return None
    except OSError as error:
        return f"cannot be written to: {error.strerror}"
