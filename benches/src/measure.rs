//! Measures two things in turns and prints how they compare.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Rounds of each measurement; the median counts.
const ROUNDS: usize = 15;
/// How long one round shall take at least.
const ROUND: Duration = Duration::from_millis(8);

/// Prints comparisons and counts those over their limit.
#[derive(Debug, Default)]
pub(crate) struct Report {
    misses: usize,
    targets: Vec<Target>,
}

/// A figure of the framework beside the figure that it shall reach.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) what: &'static str,
    pub(crate) ours: f64,
    pub(crate) bound: Bound,
    /// The figure up to which a miss is known, and explained in `docs/benchmarks.md`.
    pub(crate) tolerated: Option<f64>,
    /// The figures of the other sides of the same run.
    pub(crate) beside: String,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    fn verdict(&self) -> &'static str {
        let known = self.tolerated.map(|known| self.bound.at(known));
        if self.bound.holds(self.ours) {
            "ok"
        } else if known.is_some_and(|known| known.holds(self.ours)) {
            "missed"
        } else {
            "OVER"
        }
    }
}

impl Bound {
    fn holds(self, ours: f64) -> bool {
        match self {
            Self::AtMost(most) => ours <= most,
            Self::AtLeast(least) => ours >= least,
        }
    }

    /// The same kind of bound at another figure.
    fn at(self, figure: f64) -> Self {
        match self {
            Self::AtMost(_) => Self::AtMost(figure),
            Self::AtLeast(_) => Self::AtLeast(figure),
        }
    }
}

/// One measured operation: its name, and a function that performs it once.
pub(crate) struct Subject<'a> {
    name: &'a str,
    go: Box<dyn FnMut() + 'a>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new<R>(name: &'a str, mut go: impl FnMut() -> R + 'a) -> Self {
        Self {
            name,
            go: Box::new(move || {
                black_box(go());
            }),
        }
    }

    /// How many goes fill a round.
    fn calibrate(&mut self) -> u32 {
        let mut goes = 1;
        loop {
            if self.round(goes) >= ROUND || goes >= 1 << 22 {
                return goes;
            }
            goes *= 2;
        }
    }

    fn round(&mut self, goes: u32) -> Duration {
        let start = Instant::now();
        for _ in 0..goes {
            (self.go)();
        }
        start.elapsed()
    }
}

impl Report {
    /// Measures both in turns; `subject` may cost at most `limit` times what `base` costs.
    pub(crate) fn compare(&mut self, mut base: Subject<'_>, mut subject: Subject<'_>, limit: f64) {
        let base_goes = base.calibrate();
        let subject_goes = subject.calibrate();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let rounds = [
                base.round(base_goes).as_secs_f64() / f64::from(base_goes),
                subject.round(subject_goes).as_secs_f64() / f64::from(subject_goes),
            ];
            for (times, round) in times.iter_mut().zip(rounds) {
                times.push(round * 1e9);
            }
        }
        let [base_ns, subject_ns] = times.map(median);
        let ratio = subject_ns / base_ns;
        let verdict = if ratio <= limit { "ok" } else { "OVER" };
        self.misses += usize::from(ratio > limit);
        println!(
            "  {:<34} {:>11} | {:<34} {:>11} | {ratio:>6.2}x  limit {limit}x  {verdict}",
            base.name,
            nanos(base_ns),
            subject.name,
            nanos(subject_ns),
        );
    }

    /// Compares two measurements: `subject` may be at most `limit` times `base`.
    pub(crate) fn at_most(&mut self, base: (&str, f64), subject: (&str, f64), limit: f64) {
        let ratio = subject.1 / base.1;
        self.judge(
            base,
            subject,
            ratio,
            &format!("limit {limit}x"),
            ratio <= limit,
        );
    }

    /// Compares two measurements: `subject` must be at least `limit` times `base`.
    pub(crate) fn at_least(&mut self, base: (&str, f64), subject: (&str, f64), limit: f64) {
        let ratio = subject.1 / base.1;
        self.judge(
            base,
            subject,
            ratio,
            &format!("at least {limit}x"),
            ratio >= limit,
        );
    }

    fn judge(
        &mut self,
        base: (&str, f64),
        subject: (&str, f64),
        ratio: f64,
        limit: &str,
        ok: bool,
    ) {
        let verdict = if ok { "ok" } else { "OVER" };
        self.misses += usize::from(!ok);
        println!(
            "  {:<34} {:>11} | {:<34} {:>11} | {ratio:>6.2}x  {limit}  {verdict}",
            base.0,
            figure(base.1),
            subject.0,
            figure(subject.1),
        );
    }

    /// Records a figure for the table at the end.
    pub(crate) fn target(&mut self, target: Target) {
        self.misses += usize::from(target.verdict() == "OVER");
        self.targets.push(target);
    }

    /// Prints the figures that have a target.
    pub(crate) fn print_targets(&self) {
        if self.targets.is_empty() {
            return;
        }
        println!();
        println!("{:<46} {:>10}  {:<18} beside", "", "ours", "target");
        for one in &self.targets {
            let verdict = one.verdict();
            let Target {
                what,
                ours,
                bound,
                beside,
                ..
            } = one;
            let target = match bound {
                Bound::AtMost(most) => format!("<= {most} {verdict}"),
                Bound::AtLeast(least) => format!(">= {least} {verdict}"),
            };
            println!("{what:<46} {:>10}  {target:<18} {beside}", fine(*ours));
        }
    }

    /// A measurement that could not be taken.
    pub(crate) fn broken(&mut self, name: &str, why: &str) {
        self.misses += 1;
        println!("  {name}: BROKEN: {why}");
    }

    pub(crate) fn misses(&self) -> usize {
        self.misses
    }
}

fn figure(value: f64) -> String {
    if value.abs() < 100.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

/// A figure with as many decimals as its size calls for.
pub(crate) fn fine(value: f64) -> String {
    if value.abs() < 1.0 {
        format!("{value:.4}")
    } else {
        figure(value)
    }
}

/// Prints a figure that has no limit.
pub(crate) fn print_figure(text: &str) {
    println!("  {text}");
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn nanos(value: f64) -> String {
    if value < 10_000.0 {
        format!("{value:.0} ns")
    } else {
        format!("{:.1} µs", value / 1e3)
    }
}
