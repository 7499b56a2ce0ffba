"""How far a comparison is: one line that changes on a terminal, a line for each round elsewhere."""

import sys
import time


class Progress:
    """Tells on standard error what runs, and knows when the time is over."""

    def __init__(self, minutes: float | None) -> None:
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self._seconds: dict[str, float] = {}

    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def now(self, what: str) -> None:
        """What runs at this moment; nobody who reads a file later wants to know."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)

    def round(self, name: str, done: int, rounds: int, seconds: float, summary: str) -> None:
        """A round has ended."""
        self._seconds[name] = seconds
        line = f"{name}: round {done} of {rounds}, {summary}, {seconds:.0f} s"
        print(f"\r\x1b[K{line}" if sys.stderr.isatty() else line, file=sys.stderr, flush=True)

    def seconds(self, name: str) -> float:
        """How long the last round of this one took."""
        return self._seconds.get(name, 0.0)

    def left(self, seconds: float) -> None:
        """About how long it will still take, if nothing is disturbed."""
        if self._end is not None:
            seconds = min(seconds, self._end - time.monotonic())
        if seconds > 0:
            print(f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left", file=sys.stderr)
