//! What happens to a play.

/// What a user does beside what the scenario asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Meddling {
    /// Sends the answer again that was sent last.
    AnswerAgain,
    /// Resumes, whether that is possible or not.
    Resume,
    /// Takes over, whether that is possible or not.
    Recover,
    /// Says something, whether somebody listens or not.
    Execute,
}

/// What happens to a play.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// At which point, counted from 1, the first process dies, then the second, and so on.
    pub kills: Vec<usize>,
    /// What the user does before each thing that the scenario asks for.
    pub meddling: Vec<Meddling>,
    /// Whether questions are answered last first.
    pub backwards: bool,
}
