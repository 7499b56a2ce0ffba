"""From records to judgements: one for each claim and point."""

from dataclasses import dataclass, replace
from statistics import median

from comparison.contenders import best_of
from comparison.measures import CLAIMS, Itself, Limit, Versus
from comparison.ratios import Estimate, Verdict, estimate, verdict
from comparison.records import Compared, Record, best_known, compared, states, unit_of, values


@dataclass(frozen=True)
class Judgement:
    experiment: str
    what: str
    at: str
    # What DECK has, what it is measured against, and whose that is.
    own: float
    unit: str
    against: str
    other: float | None
    ratio: Estimate
    # The goal for the ratio, or for the figure itself if there is nothing to compare it with.
    goal: float
    is_lower_better: bool
    remark: str = ""

    @property
    def verdict(self) -> Verdict:
        return verdict(self.ratio, self.goal, self.is_lower_better)

    @property
    def aim(self) -> str:
        """The goal in words."""
        unit = f" {self.unit}" if self.other is None else ""
        return f"at {'most' if self.is_lower_better else 'least'} {self.goal:g}{unit}"

    @property
    def margins(self) -> tuple[float, float, float]:
        """How many times as good as the goal: at the worse end of the interval, in the middle, at the better end."""
        found = self.ratio
        if self.is_lower_better:
            return self.goal / found.high, self.goal / found.median, self.goal / max(found.low, 1e-9)
        return found.low / self.goal, found.median / self.goal, found.high / self.goal


def judge(records: list[Record]) -> list[Judgement]:
    """All claims that these records say something about."""
    found: list[Judgement | None] = []
    for claim in CLAIMS:
        match claim:
            case Versus():
                found += [_versus(records, claim, at) for at in claim.points]
            case Itself():
                found.append(_itself(records, claim))
            case Limit():
                found.append(_limit(records, claim))
    return [judgement for judgement in found if judgement is not None]


def _versus(records: list[Record], claim: Versus, at: int) -> Judgement | None:
    best = best_of(records, claim, at)
    if best is None:
        return None
    return _judgement(records, claim, str(at), best, compared(records, claim, at, best))


def _itself(records: list[Record], claim: Itself) -> Judgement | None:
    mine = [record for record in records if (record.experiment, record.participant) == (claim.experiment, "deck")]
    if is_of_all := claim.point is None or claim.over is None:
        claim = _furthest_apart(mine, claim)
    rounds: dict[int, list[Compared]] = {}
    for record in mine:
        ours = record.value(claim.what, claim.point)
        # The other point is measured in the same run or in another of this round: that which saw the same machine.
        others = [one for one in mine if one.round == record.round and one.value(claim.what, claim.over)]
        if ours is not None and others:
            other = min(others, key=lambda one: _distance(record, one))
            rounds.setdefault(record.round, []).append(Compared.of(ours, other.value(claim.what, claim.over), record, other))
    if not rounds:
        return None
    found = [_middle(of_round) for of_round in rounds.values()]
    of_all = (", the largest", ", the smallest") if is_of_all else ("", "")
    return _judgement(records, claim, f"{claim.point}{of_all[0]}", f"itself at {claim.over}{of_all[1]}", best_known(found))


def _middle(of_round: list[Compared]) -> Compared:
    """The one that stands for its round, whose runs saw the same machine: the middle one of the steady, if there are any."""
    among = [one for one in of_round if one.is_steady] or of_round
    return sorted(among, key=lambda one: one.ratio)[len(among) // 2]


def _furthest_apart(records: list[Record], claim: Itself) -> Itself:
    """The claim about the points whose medians are the largest and the smallest. The largest and the smallest value of each run would be
    further apart the more points there are, also if all of them were the same but for noise."""
    at_points: dict[int, list[float]] = {}
    for figure in (figure for record in records for figure in record.figures if figure.what == claim.what):
        at_points.setdefault(figure.at, []).append(figure.value)
    medians = {at: median(values) for at, values in at_points.items()}
    return replace(claim, point=max(medians, key=medians.get), over=min(medians, key=medians.get)) if medians else claim


def _distance(one: Record, other: Record) -> float:
    """How much the machine changed between two records."""
    probes = one.probes + other.probes
    return max(probes) / min(probes) if probes else 1.0


def _judgement(records: list[Record], claim: Versus | Itself, at: str, against: str, found: list[Compared]) -> Judgement:
    disturbed = sum(not one.is_steady for one in found)
    remarks = [f"{disturbed} of them disturbed"] if disturbed else []
    if len(apart := states(found)) > 1:
        remarks += [
            f"{len(group)} at a bare ring of {median(one.probe for one in group):.0f} ns: {median(one.ratio for one in group):.3g}"
            for group in apart
        ]
    return Judgement(
        claim.experiment, claim.what, at, median(one.ours for one in found),
        unit_of(records, claim.experiment, claim.what), against, median(one.theirs for one in found),
        estimate([one.ratio for one in found]), claim.goal, claim.is_lower_better, "; ".join(remarks),
    )


def _limit(records: list[Record], claim: Limit) -> Judgement | None:
    own = values(records, claim.experiment, "deck", claim.what, claim.point)
    if not own:
        return None
    found = estimate(own)
    return Judgement(
        claim.experiment, claim.what, str(claim.point), found.median, unit_of(records, claim.experiment, claim.what), "", None,
        found, claim.goal, claim.is_lower_better,
    )
