//! What came of a crash test.

/// What came of a crash test.
#[derive(Debug)]
#[non_exhaustive]
pub struct CrashReport {
    /// The scenario.
    pub scenario: String,
    /// How many points there were to die at.
    pub points: usize,
    /// How many processes were killed.
    pub kills: usize,
    /// What went wrong, one sentence each; empty: nothing.
    pub violations: Vec<String>,
}

impl CrashReport {
    /// Says on the standard error what was found.
    ///
    /// # Panics
    /// When something went wrong.
    #[expect(clippy::panic, reason = "this is how a test fails")]
    #[expect(clippy::print_stderr, reason = "a test says what it tried")]
    pub fn check(&self) {
        let Self {
            scenario,
            points,
            kills,
            violations,
        } = self;
        eprintln!("{scenario}: {points} points to die at, {kills} kills");
        if let Some(first) = violations.first() {
            let count = violations.len();
            let all = violations.join("\n  ");
            panic!(
                "{scenario}: {count} violations at {points} points, {kills} kills, the first: {first}\n  {all}"
            );
        }
    }
}
