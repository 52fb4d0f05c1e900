//! The events of a schedule, which a seed decides.

use std::collections::VecDeque;

use helix_agents_core::session::StopKind;

use crate::{Dice, Faults};

/// The death of a process, or a mistaken belief in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kill {
    /// The number of times that other tasks run before.
    pub(super) after: usize,
    /// Whether the process only seems dead, and continues beside the one that takes over.
    pub(super) survives: bool,
}

/// The faults and the actions of others during the runs.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    pub(super) kills: VecDeque<Kill>,
    /// Whether open questions are answered at random moments.
    pub(super) eager: bool,
    /// Whether answers are submitted twice.
    pub(super) twice: bool,
    pub(super) stop: Option<StopKind>,
    pub(super) append: bool,
    /// The most times that a tool yields to other tasks.
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
