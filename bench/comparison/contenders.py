"""Who is still in the race: peers that may yet be the best at something that DECK is compared in.

A peer that is far behind another after some rounds is not run again: it would take time from those that count.
What it did is kept and shown.
"""

from statistics import median

from comparison.measures import CLAIMS, Experiment, Versus
from comparison.records import Record, compared

# Rounds in which everybody runs.
SCOUTING = 4
# A peer stays in the race if its best run comes so near to the usual one of the best.
REACH = 1.5


def contenders(records: list[Record], experiment: Experiment, points: tuple[int, ...]) -> list[str]:
    """The peers that are worth another round at these points."""
    mine = [claim for claim in CLAIMS if isinstance(claim, Versus) and claim.experiment == experiment.name]
    judged = [(claim, at) for claim in mine for at in claim.points if at in points]
    rounds = {record.round for record in records if (record.experiment, record.points) == (experiment.name, points)}
    if len(rounds) < SCOUTING or not judged:
        return list(experiment.peers)
    near = set()
    for claim, at in judged:
        strengths = _strengths(records, claim, at)
        best = max((median(found) for found in strengths.values()), default=0)
        near |= {peer for peer, found in strengths.items() if max(found) * REACH >= best}
    return [peer for peer in experiment.peers if peer in near]


def best_of(records: list[Record], claim: Versus, at: int) -> str | None:
    """The peer that is best against DECK: the one against which DECK's median ratio is worst."""
    strengths = _strengths(records, claim, at)
    return max(strengths, key=lambda peer: median(strengths[peer]), default=None)


def _strengths(records: list[Record], claim: Versus, at: int) -> dict[str, list[float]]:
    """How many times as good as DECK each peer was that ran, each time that both did."""
    pairs = {peer: found for peer in claim.peers if (found := compared(records, claim, at, peer))}
    return {
        peer: [one.ratio if claim.is_lower_better else one.theirs / max(one.ours, 1e-9) for one in found]
        for peer, found in pairs.items()
    }
