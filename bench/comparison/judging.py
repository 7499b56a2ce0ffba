"""From records to judgements: one for each claim and point."""

from dataclasses import dataclass
from statistics import median

from comparison.measures import CLAIMS, Itself, Limit, Versus
from comparison.ratios import LEAST, Estimate, estimate, verdict
from comparison.running import Record, pairs


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
    goal: str
    verdict: str
    remark: str


def value(record: Record, what: str, at: int) -> float | None:
    """One figure of a record."""
    return next((figure.value for figure in record.figures if (figure.what, figure.at) == (what, at)), None)


def values(records: list[Record], experiment: str, participant: str, what: str, at: int) -> list[float]:
    """All values of one figure."""
    mine = (record for record in records if (record.experiment, record.participant) == (experiment, participant))
    found = (value(record, what, at) for record in mine if record.failure is None)
    return [one for one in found if one is not None]


def unit_of(records: list[Record], experiment: str, what: str) -> str:
    mine = (record for record in records if record.experiment == experiment)
    return next((figure.unit for record in mine for figure in record.figures if figure.what == what), "")


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


def _goal(goal: float, is_lower_better: bool) -> str:
    return f"at {'most' if is_lower_better else 'least'} {goal:g}"


def _versus(records: list[Record], claim: Versus, at: int) -> Judgement | None:
    medians = {}
    for peer in claim.peers:
        if all_values := values(records, claim.experiment, peer, claim.what, at):
            medians[peer] = median(all_values)
    own = values(records, claim.experiment, "deck", claim.what, at)
    if not own or not medians:
        return None
    best = (min if claim.is_lower_better else max)(medians, key=medians.__getitem__)
    ratios, disturbed = [], []
    for pair in pairs(records, claim.experiment, best):
        ours, theirs = value(pair.deck, claim.what, at), value(pair.peer, claim.what, at)
        if ours is not None and theirs:
            (ratios if pair.is_steady else disturbed).append(ours / theirs)
    remark = f"{len(disturbed)} pairs disturbed" if disturbed else ""
    if len(ratios) < LEAST and disturbed:
        ratios, remark = ratios + disturbed, f"{len(disturbed)} pairs disturbed, counted for want of others"
    if not ratios:
        return None
    found = estimate(ratios)
    return Judgement(
        claim.experiment, claim.what, str(at), median(own), unit_of(records, claim.experiment, claim.what),
        best, medians[best], found, _goal(claim.goal, claim.is_lower_better),
        verdict(found, claim.goal, claim.is_lower_better), remark,
    )


def _itself(records: list[Record], claim: Itself) -> Judgement | None:
    ratios, own, other = [], [], []
    for record in records:
        if (record.experiment, record.participant) != (claim.experiment, "deck") or record.failure:
            continue
        if claim.point is None or claim.over is None:
            mine = [figure.value for figure in record.figures if figure.what == claim.what]
            pair = (max(mine), min(mine)) if mine else (None, None)
        else:
            pair = value(record, claim.what, claim.point), value(record, claim.what, claim.over)
        if pair[0] is not None and pair[1]:
            own.append(pair[0])
            other.append(pair[1])
            ratios.append(pair[0] / pair[1])
    if not ratios:
        return None
    found = estimate(ratios)
    at, over = ("largest", "smallest") if claim.point is None else (str(claim.point), str(claim.over))
    return Judgement(
        claim.experiment, claim.what, at, median(own), unit_of(records, claim.experiment, claim.what),
        f"itself at {over}", median(other), found, _goal(claim.goal, claim.is_lower_better),
        verdict(found, claim.goal, claim.is_lower_better), "",
    )


def _limit(records: list[Record], claim: Limit) -> Judgement | None:
    own = values(records, claim.experiment, "deck", claim.what, claim.point)
    if not own:
        return None
    found, unit = estimate(own), unit_of(records, claim.experiment, claim.what)
    return Judgement(
        claim.experiment, claim.what, str(claim.point), found.median, unit, "", None, found,
        f"{_goal(claim.goal, claim.is_lower_better)} {unit}", verdict(found, claim.goal, claim.is_lower_better), "",
    )
