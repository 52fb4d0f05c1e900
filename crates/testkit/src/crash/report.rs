//! The report of a crash test.

/// The result of a crash test.
///
/// ```
/// use helix_agents_testkit::crash::CrashReport;
///
/// fn survived(report: &CrashReport) -> bool {
///     report.kills > 0 && report.violations.is_empty()
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct CrashReport {
    /// The name of the scenario.
    pub scenario: String,
    /// The number of kill points.
    pub points: usize,
    /// The number of processes that were killed.
    pub kills: usize,
    /// The violations, one sentence each; empty if the test passed.
    pub violations: Vec<String>,
}

impl CrashReport {
    /// Prints the numbers to standard error.
    ///
    /// # Panics
    /// If there are violations, with all of them.
    #[expect(clippy::panic, reason = "this is how a test fails")]
    #[expect(clippy::print_stderr, reason = "a test says what it tried")]
    pub fn check(&self) {
        let Self {
            scenario,
            points,
            kills,
            violations,
        } = self;
        eprintln!("{scenario}: {points} kill points, {kills} kills");
        if let Some(first) = violations.first() {
            let count = violations.len();
            let all = violations.join("\n  ");
            panic!(
                "{scenario}: {count} violations at {points} points, {kills} kills, the first: {first}\n  {all}"
            );
        }
    }
}
