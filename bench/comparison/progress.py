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

    def round(self, name: str, done: int, rounds: int, seconds: float, summary: str, left: float) -> None:
        """A round has ended; about `left` seconds will be needed for the rest, if nothing is disturbed."""
        self._seconds[name] = seconds
        if self._end is not None:
            left = min(left, self._end - time.monotonic())
        then = f"{left / 60:.0f} min" if left > 90 else f"{left:.0f} s"
        line = f"{name}: round {done} of {rounds}, {summary}, {seconds:.0f} s" + (f"; about {then} left" if left > 0 else "")
        print(f"\r\x1b[K{line}" if sys.stderr.isatty() else line, file=sys.stderr, flush=True)

    def seconds(self, name: str) -> float:
        """How long the last round of this one took; of one that has not run yet, as the others on average."""
        known = self._seconds.values()
        return self._seconds.get(name, sum(known) / len(known) if known else 0.0)
