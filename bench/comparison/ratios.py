"""Medians of ratios, with an interval that needs no assumption about how noise is distributed.

The interval is made of order statistics: of n independent values, as many lie below the true median as coins show heads.
"""

from dataclasses import dataclass
from enum import Enum
from math import comb
from statistics import median

# Fewer values than this have no interval of 95 %: their range is shown instead.
LEAST = 6


@dataclass(frozen=True)
class Estimate:
    median: float
    low: float
    high: float
    count: int

    @property
    def is_range(self) -> bool:
        return self.count < LEAST


def estimate(values: list[float]) -> Estimate:
    """The median and its 95 % interval."""
    ordered = sorted(values)
    count = len(ordered)
    # The largest k for which fewer than k heads in `count` tosses come up in at most 2.5 % of all cases.
    below, k = 0.0, 0
    while k < count // 2 and below + comb(count, k) / 2**count <= 0.025:
        below += comb(count, k) / 2**count
        k += 1
    k = max(k, 1)
    return Estimate(median(ordered), ordered[k - 1], ordered[count - k], count)


class Verdict(Enum):
    """Whether a goal is reached, and its words. What is uncertain is neither reached nor missed."""

    REACHED = "reached"
    RATHER_REACHED = "reached, uncertain"
    RATHER_MISSED = "missed, uncertain"
    MISSED = "missed"

    @property
    def is_certain(self) -> bool:
        return self in (Verdict.REACHED, Verdict.MISSED)

    @property
    def marked(self) -> str:
        """Its words in a table, where a loss is to be seen at once."""
        return f"**{self.value}**" if self is Verdict.MISSED else self.value


def verdict(found: Estimate, goal: float, is_lower_better: bool) -> Verdict:
    """Whether a goal is reached, for certain or not: a range is never certain."""
    good, bad = (found.high <= goal, found.low > goal) if is_lower_better else (found.low >= goal, found.high < goal)
    if good and not found.is_range:
        return Verdict.REACHED
    if bad and not found.is_range:
        return Verdict.MISSED
    is_near = found.median <= goal if is_lower_better else found.median >= goal
    return Verdict.RATHER_REACHED if is_near else Verdict.RATHER_MISSED
