//! The operations that processes try on a session, at random.

use crate::Dice;

/// An operation that a process tries, whether it is possible or not.
///
/// Another one is a row of [`Operation::WEIGHTS`] and an arm of `Request::perform`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Sends a message, and performs the run.
    Execute,
    /// Sends a message under a rule for the run that is in progress, and performs the run if one starts.
    Message,
    /// Starts the run that messages wait for, and performs it.
    Deliver,
    /// Times out the calls whose deadline has passed, perhaps by letting it pass.
    Timeout,
    /// Retries the last turn, and performs the run.
    Retry,
    /// Goes back to a checkpoint, and performs the run.
    Rewind,
    /// Answers a call that is pending, or was once.
    Submit,
    /// Continues the session, and performs the run.
    Resume,
    /// Takes the run over, perhaps after its lease, and performs it.
    Recover,
    /// Asks the run to stop where it is.
    Interrupt,
    /// Asks the run to fail.
    Abort,
    /// Ends everything that the process does.
    Crash,
}

impl Operation {
    /// How often each operation is tried, relative to the others.
    const WEIGHTS: [(Self, usize); 12] = [
        (Self::Execute, 5),
        (Self::Message, 6),
        (Self::Deliver, 2),
        (Self::Timeout, 2),
        (Self::Retry, 3),
        (Self::Rewind, 1),
        (Self::Submit, 8),
        (Self::Resume, 5),
        (Self::Recover, 4),
        (Self::Interrupt, 2),
        (Self::Abort, 1),
        (Self::Crash, 2),
    ];

    /// Draws an operation by its weight.
    pub(super) fn draw(dice: &Dice) -> Self {
        let all: usize = Self::WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut left = dice.below(all);
        for (operation, weight) in Self::WEIGHTS {
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => return operation,
            }
        }
        Self::Crash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_drawn_by_their_weights() {
        let dice = Dice::new(1);
        let drawn: Vec<_> = (0..4100).map(|_| Operation::draw(&dice)).collect();
        for (operation, weight) in Operation::WEIGHTS {
            let count = drawn.iter().filter(|one| **one == operation).count();
            assert!(
                count > weight * 70 && count < weight * 130,
                "{operation:?} {count}"
            );
        }
    }
}
