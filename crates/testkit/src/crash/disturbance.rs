//! Disturbances of a play.

/// An action of a user that the scenario does not ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Meddling {
    /// Submits the last answer again.
    AnswerAgain,
    /// Resumes the session, whether that is possible or not.
    Resume,
    /// Takes the run over, whether that is possible or not.
    Recover,
    /// Sends a message, whether a turn can begin or not.
    Execute,
}

/// The kills and the extra actions of a play.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// The kill points, counted from 1: the first process dies at the first of them, the second
    /// process at the second, and so on.
    pub kills: Vec<usize>,
    /// The action before each action of the scenario.
    pub meddling: Vec<Meddling>,
    /// Whether pending calls are answered in reverse order.
    pub backwards: bool,
}
