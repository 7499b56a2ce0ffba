//! Costs as whole numbers, so that a bound stays true and a comparison exact whatever the order of additions.
//!
//! A search engine multiplies every cost by one power of two and rounds it to a whole number, chosen so that all costs
//! of any placement together stay below 2^50: an `f64` adds and subtracts such numbers without any rounding. What the
//! rounding of each term can make out is known beforehand, and the bound that is told is lower by that much. Models of
//! whole numbers (bytes times hops) need no rounding: their bounds are exact.

use super::watch::PROVED;

/// Costs together stay below this.
const MOST: f64 = (1u64 << 50) as f64;

/// What computing with numbers that are not whole can make out, relatively.
pub const RELATIVE: f64 = 1e-12;

/// How costs become whole numbers and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounding {
    factor: f64,
    /// How far `value / factor` can be from the cost, in ns.
    error: f64,
    /// What was computed in between may be off by this part.
    relative: f64,
}

impl Rounding {
    /// For placements whose costs are sums of at most `terms` terms, together at most `total`; `whole`: each is a whole
    /// number.
    pub fn new(total: f64, terms: usize, whole: bool) -> Rounding {
        let mut factor = 1.0;
        if total > 0.0 {
            factor = (MOST / total).log2().floor().clamp(-1000.0, 60.0).exp2();
        }
        let exact = whole && factor >= 1.0;
        let error = if exact { 0.0 } else { 0.5 * terms as f64 / factor };
        Rounding { factor, error, relative: if exact { 0.0 } else { RELATIVE } }
    }

    /// The whole number of one term.
    #[inline]
    pub fn whole(&self, cost: f64) -> f64 {
        (cost * self.factor).round()
    }

    /// A cost that no placement has less than, if none has less than `value` in whole numbers.
    pub fn bound(&self, value: f64) -> f64 {
        if value == f64::INFINITY {
            return value;
        }
        (value / self.factor * (1.0 - self.relative) - self.error).max(0.0)
    }

    /// Whether two costs of about this size that differ by more than counts ([`PROVED`]) are two whole numbers.
    pub fn tells_apart(&self, cost: f64) -> bool {
        2.0 * self.error <= PROVED * cost
    }

    /// What a whole number stands for, but for rounding.
    pub fn cost(&self, value: f64) -> f64 {
        value / self.factor
    }

    /// A whole number that no placement of cost `cost` or more falls below: search for what is under it.
    pub fn enough(&self, cost: f64) -> f64 {
        if cost == f64::INFINITY {
            return cost;
        }
        ((cost * (1.0 + self.relative) + self.error) * self.factor).ceil()
    }
}

#[cfg(test)]
mod tests {
    use super::Rounding;

    #[test]
    fn whole_costs_come_back_exactly() {
        let rounding = Rounding::new(1e6, 100, true);
        assert_eq!(rounding.bound(rounding.whole(12_345.0)), 12_345.0);
        assert_eq!(rounding.enough(12_345.0), rounding.whole(12_345.0));
    }

    #[test]
    fn a_bound_is_never_above_what_was_rounded() {
        let cost = 1000.0 / 33.0;
        let rounding = Rounding::new(1e3, 7, false);
        assert!(rounding.bound(7.0 * rounding.whole(cost)) <= 7.0 * cost);
        assert!(rounding.enough(7.0 * cost) >= 7.0 * rounding.whole(cost));
    }
}
