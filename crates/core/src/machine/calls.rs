//! The calls of the open step in the run state: one letter each.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::session::{CallPhase, CallState, EffectState, OpenCall};

/// The state of a call, as the loop sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallStatus {
    /// The call can be run.
    Ready,
    /// The call was started before a crash and has no result.
    Unknown,
    /// The call is running.
    Running,
    /// The call waits for a result from a client, or from a person who investigates.
    AwaitingClient,
    /// The call waits for a person's approval.
    AwaitingApproval,
    /// A child session works on the call, and nobody waits for it yet.
    ChildStarted,
    /// A child session works on the call, and the run waits for it.
    ChildAwaited,
    /// The call waits for a child session that is suspended.
    AwaitingChild,
    /// The call has its result.
    Terminal,
}

impl CallStatus {
    const LETTERS: [(Self, char); 9] = [
        (Self::Ready, 'r'),
        (Self::Unknown, 'u'),
        (Self::Running, 'x'),
        (Self::AwaitingClient, 'c'),
        (Self::AwaitingApproval, 'a'),
        (Self::ChildStarted, 'k'),
        (Self::ChildAwaited, 'w'),
        (Self::AwaitingChild, 's'),
        (Self::Terminal, 't'),
    ];

    fn letter(self) -> char {
        let mut letters = Self::LETTERS.iter();
        let letter = letters.find(|(standing, _)| *standing == self);
        letter.map_or('t', |(_, letter)| *letter)
    }

    fn from_letter(letter: char) -> Option<Self> {
        let mut letters = Self::LETTERS.iter();
        let found = letters.find(|(_, one)| *one == letter);
        found.map(|(standing, _)| *standing)
    }

    /// The letter of a companion's call: the place of the state in the list, from 1.
    fn digit(self) -> char {
        let mut letters = ('1'..='9').zip(&Self::LETTERS);
        let digit = letters.find(|(_, (standing, _))| *standing == self);
        digit.map_or('9', |(digit, _)| digit)
    }

    fn from_digit(digit: char) -> Option<Self> {
        let mut letters = ('1'..='9').zip(&Self::LETTERS);
        let found = letters.find(|(one, _)| *one == digit);
        found.map(|(_, (standing, _))| *standing)
    }

    /// Whether the call waits for a client, a person or a suspended child.
    #[must_use]
    pub(crate) fn is_awaiting(self) -> bool {
        matches!(
            self,
            Self::AwaitingClient | Self::AwaitingApproval | Self::AwaitingChild
        )
    }

    /// Whether the runtime has to run the call, or is running it.
    #[must_use]
    pub(crate) fn is_to_be_run(self) -> bool {
        matches!(self, Self::Ready | Self::Unknown | Self::Running)
    }

    /// Whether the runtime, or a child session, has still to give the call its result.
    #[must_use]
    pub(crate) fn is_unfinished(self) -> bool {
        self.is_to_be_run() || matches!(self, Self::ChildStarted | Self::ChildAwaited)
    }

    /// Whether the run waits for the outcome of the call.
    #[must_use]
    pub(crate) fn is_in_progress(self) -> bool {
        matches!(self, Self::Running | Self::ChildAwaited)
    }

    /// Whether the call can be run now.
    #[must_use]
    pub(crate) fn is_runnable(self) -> bool {
        matches!(self, Self::Ready | Self::Unknown)
    }

    /// Returns the state of a stored call.
    #[must_use]
    pub(crate) fn of(call: &OpenCall) -> Self {
        let is = |state| {
            let effect = call.effect.as_ref();
            effect.is_some_and(|effect| effect.state == state)
        };
        match call.state {
            CallState::Terminal => Self::Terminal,
            CallState::AwaitingClient => Self::AwaitingClient,
            CallState::AwaitingApproval => Self::AwaitingApproval,
            CallState::AwaitingChild if call.child.as_ref().is_some_and(|it| !it.suspended) => {
                Self::ChildStarted
            }
            CallState::AwaitingChild => Self::AwaitingChild,
            CallState::Ready | CallState::Approved if is(EffectState::Unknown) => Self::Unknown,
            CallState::Ready | CallState::Approved if is(EffectState::Started) => Self::Running,
            CallState::Ready | CallState::Approved => Self::Ready,
        }
    }
}

impl Serialize for CallStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_char(self.letter())
    }
}

impl<'de> Deserialize<'de> for CallStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let letter = char::deserialize(deserializer)?;
        Self::from_letter(letter).ok_or_else(|| unknown_letter(letter))
    }
}

fn unknown_letter<E: serde::de::Error>(letter: char) -> E {
    E::custom(format!("{letter:?} is not the letter of a call state"))
}

/// One call, as the loop sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallRef {
    /// The phase in which the call is run.
    pub phase: CallPhase,
    /// The state of the call.
    pub standing: CallStatus,
}

impl CallRef {
    /// Summarizes a stored call.
    #[must_use]
    pub(crate) fn of(call: &OpenCall) -> Self {
        Self {
            phase: call.phase,
            standing: CallStatus::of(call),
        }
    }

    fn letter(self) -> char {
        let letter = self.standing.letter();
        match self.phase {
            CallPhase::Regular => letter,
            CallPhase::Companion => self.standing.digit(),
            CallPhase::Finish => letter.to_ascii_uppercase(),
        }
    }

    fn from_letter(letter: char) -> Option<Self> {
        if letter.is_ascii_digit() {
            let standing = CallStatus::from_digit(letter)?;
            let phase = CallPhase::Companion;
            return Some(Self { phase, standing });
        }
        let small = letter.to_ascii_lowercase();
        let standing = CallStatus::from_letter(small)?;
        Some(Self {
            phase: if letter == small {
                CallPhase::Regular
            } else {
                CallPhase::Finish
            },
            standing,
        })
    }
}

/// The calls of a step in the model's order. Serialized as a text with a letter for each, capital
/// in the finishing phase and a digit for a companion's call, so that a reply with a thousand calls still makes a small run state.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Calls(Vec<CallRef>);

impl Calls {
    /// Whether a child works on one of them, and the run itself has none to run before that child has ended.
    pub(crate) fn only_wait(&self) -> bool {
        let mut first = self.of_phase(CallPhase::is_first).map(|(_, call)| call);
        let has_child = |call: &CallRef| {
            matches!(
                call.standing,
                CallStatus::ChildStarted | CallStatus::ChildAwaited
            )
        };
        self.0.iter().any(has_child) && !first.any(CallStatus::is_to_be_run)
    }

    /// Summarizes the calls of a stored step.
    pub(crate) fn of<'a>(calls: impl IntoIterator<Item = &'a OpenCall>) -> Self {
        Self(calls.into_iter().map(CallRef::of).collect())
    }

    /// Returns all calls in the model's order.
    #[must_use]
    pub fn as_slice(&self) -> &[CallRef] {
        &self.0
    }

    /// Returns the number of calls.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Returns the call at an index.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<CallRef> {
        self.0.get(usize::try_from(index).ok()?).copied()
    }

    pub(crate) fn set(&mut self, index: u32, standing: CallStatus) {
        let slot = usize::try_from(index).ok();
        if let Some(slot) = slot.and_then(|index| self.0.get_mut(index)) {
            slot.standing = standing;
        }
    }

    /// Marks every running call as one of unknown outcome.
    pub(super) fn mark_running_unknown(&mut self) {
        let running = |call: &&mut CallRef| call.standing == CallStatus::Running;
        for call in self.0.iter_mut().filter(running) {
            call.standing = CallStatus::Unknown;
        }
    }

    /// Settles every call of a phase: no more of them are run.
    pub(super) fn end_phase(&mut self, phase: CallPhase) {
        for call in self.0.iter_mut().filter(|call| call.phase == phase) {
            call.standing = CallStatus::Terminal;
        }
    }

    /// Iterates over the calls whose phase passes a test, with their indices.
    pub(super) fn of_phase(
        &self,
        is_it: impl Fn(CallPhase) -> bool,
    ) -> impl Iterator<Item = (u32, CallStatus)> {
        let all = (0u32..).zip(&self.0);
        all.filter(move |(_, call)| is_it(call.phase))
            .map(|(index, call)| (index, call.standing))
    }

    /// Whether calls of the first phase are pending and no other one is left to run.
    pub(crate) fn is_waiting(&self) -> bool {
        let mut first = self.of_phase(CallPhase::is_first).map(|(_, call)| call);
        let is_done = |call: CallStatus| call == CallStatus::Terminal || call.is_awaiting();
        self.any(CallStatus::is_awaiting) && first.all(is_done)
    }

    pub(super) fn any(&self, test: impl Fn(CallStatus) -> bool) -> bool {
        self.0.iter().any(|call| test(call.standing))
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|call| write!(f, "{}", call.letter()))
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calls({self})")
    }
}

impl Serialize for Calls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Calls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let calls = text
            .chars()
            .map(|letter| CallRef::from_letter(letter).ok_or_else(|| unknown_letter(letter)));
        calls.collect::<Result<_, _>>().map(Self)
    }
}
