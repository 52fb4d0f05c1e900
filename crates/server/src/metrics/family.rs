//! Counters and histograms with labels, in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The upper bounds of the histogram buckets, in seconds. Commits take less than a millisecond,
/// model calls up to minutes.
const BOUNDS: [f64; 12] = [
    0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 120.0,
];
/// The maximum number of label sets of a family. Label values come from the configuration, so the
/// limit is reached only if agents are created in a loop; further sets are counted together.
const MAX_LABEL_SETS: usize = 1000;
/// The label value of the sets that are counted together.
const OTHER: &str = "other";

/// A metric with one value for each set of label values.
#[derive(Debug)]
pub(super) struct Family<T, const N: usize> {
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
    values: Mutex<BTreeMap<[String; N], T>>,
}

/// A family of counters.
pub(super) type Counters<const N: usize> = Family<u64, N>;
/// A family of duration histograms.
pub(super) type Durations<const N: usize> = Family<Histogram, N>;

/// The number of observations per bucket, with their sum.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: [u64; BOUNDS.len()],
    seconds: f64,
    count: u64,
}

impl<T: Default, const N: usize> Family<T, N> {
    pub(super) fn new(name: &'static str, labels: [&'static str; N], help: &'static str) -> Self {
        Self {
            name,
            help,
            labels,
            values: Mutex::default(),
        }
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<[String; N], T>> {
        // Changes of a value are a few additions, which do not panic.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, labels: [&str; N], change: impl FnOnce(&mut T)) {
        let mut values = self.values();
        let mut key = labels.map(str::to_owned);
        if values.len() >= MAX_LABEL_SETS && !values.contains_key(&key) {
            key = labels.map(|_| OTHER.to_owned());
        }
        change(values.entry(key).or_default());
    }

    fn head(&self, out: &mut String, kind: &str) {
        head(out, self.name, kind, self.help);
    }

    /// Writes one line of this family.
    fn line(
        &self,
        out: &mut String,
        suffix: &str,
        labels: &[String; N],
        more: &str,
        value: &dyn Display,
    ) {
        let named = self.labels.iter().zip(labels);
        let mut all: Vec<_> = named
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        all.extend((!more.is_empty()).then(|| more.to_owned()));
        let labels = match all.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", all.join(",")),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}{suffix}{labels} {value}", self.name);
    }
}

impl<const N: usize> Counters<N> {
    pub(super) fn add(&self, labels: [&str; N], count: u64) {
        self.change(labels, |value| *value = value.saturating_add(count));
    }

    pub(super) fn write(&self, out: &mut String) {
        self.head(out, "counter");
        for (labels, count) in self.values().iter() {
            self.line(out, "", labels, "", count);
        }
    }
}

impl<const N: usize> Durations<N> {
    pub(super) fn took(&self, labels: [&str; N], duration: Duration) {
        let seconds = duration.as_secs_f64();
        self.change(labels, |histogram| {
            for (bucket, bound) in histogram.buckets.iter_mut().zip(BOUNDS) {
                *bucket += u64::from(seconds <= bound);
            }
            histogram.seconds += seconds;
            histogram.count += 1;
        });
    }

    pub(super) fn write(&self, out: &mut String) {
        self.head(out, "histogram");
        for (labels, histogram) in self.values().iter() {
            for (bound, count) in BOUNDS.iter().zip(histogram.buckets) {
                self.line(out, "_bucket", labels, &format!("le=\"{bound}\""), &count);
            }
            let Histogram { seconds, count, .. } = histogram;
            self.line(out, "_bucket", labels, "le=\"+Inf\"", count);
            self.line(out, "_sum", labels, "", seconds);
            self.line(out, "_count", labels, "", count);
        }
    }
}

/// Writes the `HELP` and `TYPE` lines of a metric.
pub(super) fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Writes a metric without labels.
pub(super) fn single(out: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    head(out, name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}

/// Escapes a label value for the text format.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\");
    value.replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_value_cannot_end_its_line_or_its_quotes() {
        let counters = Counters::new("calls", ["tool"], "Calls.");
        counters.add(["a\"} 9\nb\\"], 1);
        let mut out = String::new();
        counters.write(&mut out);
        let wanted =
            "# HELP calls Calls.\n# TYPE calls counter\ncalls{tool=\"a\\\"} 9\\nb\\\\\"} 1\n";
        assert_eq!(out, wanted);
    }

    #[test]
    fn label_sets_beyond_the_limit_are_counted_together() {
        let counters = Counters::new("calls", ["tool"], "Calls.");
        for n in 0..MAX_LABEL_SETS + 5 {
            counters.add([&n.to_string()], 1);
        }
        counters.add(["0"], 1);
        let values = counters.values();
        assert_eq!(values.len(), MAX_LABEL_SETS + 1);
        assert_eq!(values[&[OTHER.to_owned()]], 5);
        assert_eq!(values[&["0".to_owned()]], 2);
    }

    #[test]
    fn a_bucket_counts_everything_up_to_its_bound() {
        let durations = Durations::new("took", [], "Time.");
        durations.took([], Duration::from_millis(1));
        durations.took([], Duration::from_secs(600));
        let mut out = String::new();
        durations.write(&mut out);
        let lines: Vec<_> = out.lines().skip(2).collect();
        assert_eq!(lines[0], "took_bucket{le=\"0.0005\"} 0");
        assert_eq!(lines[1], "took_bucket{le=\"0.001\"} 1");
        assert_eq!(lines[11], "took_bucket{le=\"120\"} 1");
        assert_eq!(
            lines[12..],
            [
                "took_bucket{le=\"+Inf\"} 2",
                "took_sum 600.001",
                "took_count 2"
            ]
        );
    }
}
