"""Records as a run leaves them."""

from comparison.participants import Figure
from comparison.records import Record


def record(
    participant: str,
    value: float,
    *,
    round: int = 0,
    experiment: str = "rate",
    what: str = "stream",
    at: int = 8,
    probes: tuple[float | None, float | None] = (70.0, 70.0),
    failure: str | None = None,
) -> Record:
    """A run of one participant that has measured one figure."""
    figures = [] if failure else [Figure(what, at, "messages/s", value)]
    return Record(experiment, round, (at,), participant, *probes, figures, failure, 1.0)


def rounds(participants: dict[str, float], count: int) -> list[Record]:
    """Some rounds in which everybody always has the same figure."""
    return [record(name, value, round=number) for number in range(count) for name, value in participants.items()]
