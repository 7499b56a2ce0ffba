//! Annealing by exchanging groups, most of them towards their partners.
//!
//! Of random exchanges on a large machine nearly all are bad. A group that is tried near one of its partners is often
//! better there, so a step costs the same and is worth more.

use super::super::random::Random;
use super::level::Level;

/// Of so many exchanges one is between any two groups.
const ANYWHERE: usize = 16;

/// Groups on blocks.
pub struct Exchange<'l, 'a> {
    level: &'l Level<'a>,
    place: Vec<u32>,
    group: Vec<u32>,
    movable: Vec<u32>,
}

impl<'l, 'a> Exchange<'l, 'a> {
    /// Starts with each group on the block that is given.
    pub fn new(level: &'l Level<'a>, place: Vec<u32>) -> Exchange<'l, 'a> {
        let mut group = vec![0; place.len()];
        (0..).zip(&place).for_each(|(number, &at)| group[at as usize] = number);
        let movable = (0..place.len() as u32).filter(|&group| level.fixed[group as usize].is_none()).collect();
        Exchange { level, place, group, movable }
    }

    /// Block of each group.
    pub fn places(self) -> Vec<u32> {
        self.place
    }

    /// What changes when two groups change places.
    fn difference(&self, first: u32, second: u32) -> f64 {
        let (a, b) = (self.place[first as usize], self.place[second as usize]);
        let mut difference = 0.0;
        for (group, other, from, to) in [(first, second, a, b), (second, first, b, a)] {
            for partner in self.level.partners(group as usize) {
                if partner.group != other {
                    let at = self.place[partner.group as usize];
                    difference += partner.weight * (self.level.distance(to, at) - self.level.distance(from, at));
                }
            }
        }
        difference
    }

    /// Two groups that might change places.
    fn propose(&self, random: &mut Random) -> Option<(u32, u32)> {
        let first = self.movable[random.below(self.movable.len())];
        let partners = self.level.partners(first as usize);
        let at = if partners.is_empty() || random.below(ANYWHERE) == 0 {
            random.below(self.group.len()) as u32
        } else {
            let partner = partners[random.below(partners.len())];
            let near = self.level.near(self.place[partner.group as usize]);
            near[random.below(near.len())]
        };
        let second = self.group[at as usize];
        (first != second && self.level.fixed[second as usize].is_none()).then_some((first, second))
    }

    /// Cools once in `steps` steps, and ends with the best that was seen at the end of a sixteenth.
    pub fn cool(&mut self, random: &mut Random, steps: u64, heat: f64, go_on: &dyn Fn() -> bool) {
        if self.movable.len() < 2 {
            return;
        }
        let (mut sum, mut count) = (0.0, 0);
        for _ in 0..400 {
            if let Some((first, second)) = self.propose(random) {
                let size = self.difference(first, second).abs();
                (sum, count) = (sum + size, count + i32::from(size > 0.0));
            }
        }
        if count == 0 {
            return;
        }
        let mut temperature = heat * sum / f64::from(count);
        let end = 0.02 * temperature.min(sum / f64::from(count));
        let cooling = (end / temperature).powf(1.0 / steps.max(1) as f64);
        let (mut now, mut best) = (0.0, (0.0, self.place.clone()));
        for step in 1..=steps {
            if step % 256 == 0 && !go_on() {
                break;
            }
            temperature *= cooling;
            if let Some((first, second)) = self.propose(random) {
                let difference = self.difference(first, second);
                if difference <= 0.0 || random.unit() < (-difference / temperature).exp() {
                    self.swap(first, second);
                    now += difference;
                }
            }
            if step % steps.div_ceil(16) == 0 && now < best.0 {
                best = (now, self.place.clone());
            }
        }
        if best.0 < now {
            self.place = best.1;
        }
    }

    fn swap(&mut self, first: u32, second: u32) {
        let (a, b) = (self.place[first as usize], self.place[second as usize]);
        (self.place[first as usize], self.place[second as usize]) = (b, a);
        (self.group[a as usize], self.group[b as usize]) = (second, first);
    }
}
