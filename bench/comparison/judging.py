"""From records to judgements: one for each claim and point."""

from dataclasses import dataclass
from statistics import median

from comparison.contenders import best_of
from comparison.measures import CLAIMS, Itself, Limit, Versus
from comparison.ratios import Estimate, estimate, verdict
from comparison.records import Record, compared, states, unit_of, values


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
    def verdict(self) -> str:
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
    found = compared(records, claim, at, best)
    disturbed = sum(not one.is_steady for one in found)
    remarks = [f"{disturbed} of them disturbed"] if disturbed else []
    if len(apart := states(found)) > 1:
        remarks += [
            f"{len(group)} at a bare ring of {median(one.probe for one in group):.0f} ns: {median(one.ratio for one in group):.3g}"
            for group in apart
        ]
    ratio = estimate([one.ratio for one in found])
    return Judgement(
        claim.experiment, claim.what, str(at), median(one.ours for one in found),
        unit_of(records, claim.experiment, claim.what), best, median(one.theirs for one in found), ratio,
        claim.goal, claim.is_lower_better, "; ".join(remarks),
    )


def _itself(records: list[Record], claim: Itself) -> Judgement | None:
    found, own, other = [], [], []
    for record in records:
        if (record.experiment, record.participant) != (claim.experiment, "deck") or record.failure:
            continue
        if claim.point is None or claim.over is None:
            mine = [figure.value for figure in record.figures if figure.what == claim.what]
            pair = (max(mine), min(mine)) if mine else (None, None)
        else:
            pair = record.value(claim.what, claim.point), record.value(claim.what, claim.over)
        if pair[0] is not None and pair[1]:
            own.append(pair[0])
            other.append(pair[1])
            found.append(pair[0] / pair[1])
    if not found:
        return None
    ratio = estimate(found)
    at, over = ("largest", "smallest") if claim.point is None else (str(claim.point), str(claim.over))
    return Judgement(
        claim.experiment, claim.what, at, median(own), unit_of(records, claim.experiment, claim.what),
        f"itself at {over}", median(other), ratio, claim.goal, claim.is_lower_better,
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
