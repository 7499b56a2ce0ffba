"""Ctrl-C and SIGTERM, which end a program alike: in one line, and with the status that shells tell."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a run as Ctrl-C does."""


def _terminated(*_) -> None:
    raise Terminated


def signal_of(interruption: KeyboardInterrupt) -> signal.Signals:
    """By which it was interrupted."""
    return signal.SIGTERM if isinstance(interruption, Terminated) else signal.SIGINT


def status(interruption: KeyboardInterrupt) -> int:
    """As shells tell it."""
    return 128 + signal_of(interruption)


@contextmanager
def told_by(program: str) -> Iterator[None]:
    """Whatever is done here and is interrupted ends the program."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    except KeyboardInterrupt as interruption:
        print(f"\n{program}: interrupted", file=sys.stderr)
        sys.exit(status(interruption))
