//! A sum that does not depend on luck: compensated, in the order of its terms.
//!
//! A placement may have millions of accesses of very different sizes; a plain sum would lose their small parts. Source:
//! A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974.

/// A running sum of `f64`, exact to about one unit in the last place however many terms it has, as long as terms are of
/// one sign.
///
/// ```
/// use optisci::sum::Sum;
/// let mut sum = Sum::default();
/// [1e16, 1.0, 1.0, -1e16].into_iter().for_each(|term| sum.add(term));
/// assert_eq!(sum.value(), 2.0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    /// Adds one term.
    #[inline]
    pub fn add(&mut self, term: f64) {
        let next = self.sum + term;
        self.lost += if self.sum.abs() >= term.abs() { (self.sum - next) + term } else { (term - next) + self.sum };
        self.sum = next;
    }

    /// The sum of all terms so far.
    #[inline]
    pub fn value(&self) -> f64 {
        self.sum + self.lost
    }
}

impl FromIterator<f64> for Sum {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Sum {
        let mut sum = Sum::default();
        terms.into_iter().for_each(|term| sum.add(term));
        sum
    }
}
