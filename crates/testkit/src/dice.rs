//! Random numbers from a seed.

use std::sync::{Arc, Mutex, PoisonError};

/// A random source that gives the same numbers for the same seed, on every machine. Clones draw from
/// the same sequence.
#[derive(Debug, Clone)]
pub struct Dice {
    state: Arc<Mutex<u64>>,
}

impl Dice {
    /// Creates the source of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(seed)),
        }
    }

    /// The next number (SplitMix64).
    #[must_use]
    pub fn draw(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a limit; 0 when the limit is 0.
    #[must_use]
    pub fn below(&self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.draw() % limit).unwrap_or_default()
    }

    /// Whether an event with this probability, in thousandths, happens.
    #[must_use]
    pub fn chance(&self, in_a_thousand: u32) -> bool {
        self.draw() % 1000 < u64::from(in_a_thousand)
    }

    /// An independent source: numbers drawn from it do not change the numbers of this one.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::new(self.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let (one, other) = (Dice::new(7), Dice::new(7));
        let draw = |dice: &Dice| (dice.below(10), dice.chance(500), dice.fork().draw());
        assert_eq!(draw(&one), draw(&other));
        assert_ne!(Dice::new(7).draw(), Dice::new(8).draw());
        assert_eq!(one.below(0), 0);
        assert!(!one.chance(0) && one.chance(1000));
    }
}
