"""What runs come to is looked at after each of them: a program that is fast and wrong proves nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class Wrong(Exception):
    """What a run has left is not what it should have."""


@dataclass(frozen=True)
class Outcome:
    """How what a run has left is read, and what it has to be."""

    # The run's result files, in the order of the trial's options. May raise Wrong.
    read: Callable[[list[Path]], object]
    # Where two such results differ, in words.
    difference: Callable[[object, object], str]
    # What it has to be at a point, and what that is; without this all runs have to come to what the first one did.
    wanted: Callable[[str], tuple[str, object]] | None = None


class Results:
    """Holds all runs of an experiment against one another, or against something better."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._wanted: dict[str, tuple[str, object]] = {}

    def look_at(self, participant: str, point: str, files: list[Path]) -> None:
        """Raises Wrong, with a sentence, unless the run has come to what it should have."""
        try:
            found = self._outcome.read(files)
        except (OSError, Wrong) as error:
            raise Wrong(f"{participant} at {point}: {error}") from error
        if point not in self._wanted:
            made = self._outcome.wanted
            self._wanted[point] = made(point) if made else (f"the first run, that of {participant}", found)
        name, wanted = self._wanted[point]
        if found != wanted:
            raise Wrong(f"{participant} at {point}: not the same as {name}: {self._outcome.difference(found, wanted)}")


def _bytes(files: list[Path]) -> bytes:
    (file,) = files
    return file.read_bytes()


def _different_bytes(found: bytes, wanted: bytes) -> str:
    if len(found) != len(wanted):
        return f"{len(found)} bytes instead of {len(wanted)}"
    differing = [at for at, (one, other) in enumerate(zip(found, wanted, strict=True)) if one != other]
    return f"byte {differing[0]} is {found[differing[0]]} instead of {wanted[differing[0]]}; {len(differing)} of {len(found)} differ"


# One file, the same bit for bit whoever made it.
SAME_BYTES = Outcome(_bytes, _different_bytes)
