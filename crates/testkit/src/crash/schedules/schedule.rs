//! What a seed decides.

use std::collections::VecDeque;

use helix_agents_core::session::StopKind;

use crate::{Dice, Faults};

/// The end of a process, or what seems to be it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kill {
    /// How often others go on first, at least.
    pub(super) after: usize,
    /// Whether it only seems dead, and goes on beside whoever takes over.
    pub(super) survives: bool,
}

/// What happens beside the runs.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    pub(super) kills: VecDeque<Kill>,
    /// Whether somebody answers whatever he sees, at any moment.
    pub(super) eager: bool,
    /// Whether answers are given twice.
    pub(super) twice: bool,
    pub(super) stop: Option<StopKind>,
    pub(super) append: bool,
    /// How often others go on at most while a tool runs.
    pub(super) lingers: usize,
    /// Whether processes hold leases, where their host has them.
    pub(super) leases: bool,
}

impl Schedule {
    pub(super) fn draw(seed: u64) -> Self {
        let dice = Dice::new(seed);
        let kills = match dice.below(10) {
            0..5 => 0,
            5..8 => 1,
            _ => 2,
        };
        let kill = |_| Kill {
            after: dice.below(if dice.chance(500) { 20 } else { 120 }),
            survives: dice.chance(400),
        };
        let kills = (0..kills).map(kill).collect();
        let faults = if dice.chance(700) {
            Faults::some()
        } else {
            let mut none = Faults::none();
            (none.yields, none.yields_after) = (3, 3);
            none.calls = Faults::some().calls;
            none
        };
        let stop = match dice.below(8) {
            0 => Some(StopKind::Interrupt),
            1 => Some(StopKind::Abort),
            _ => None,
        };
        let (eager, twice, append) = (dice.chance(500), dice.chance(300), dice.chance(150));
        Self {
            dice,
            faults,
            kills,
            eager,
            twice,
            stop,
            append,
            lingers: 6,
            leases: true,
        }
    }

    /// Nothing happens beside the runs, and nothing fails.
    pub(super) fn calm() -> Self {
        Self {
            dice: Dice::new(0),
            faults: Faults::none(),
            kills: VecDeque::new(),
            eager: false,
            twice: false,
            stop: None,
            append: false,
            lingers: 1,
            leases: false,
        }
    }
}
