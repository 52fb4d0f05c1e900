//! Records which writer changed what, to find conflicts.

use std::{collections::BTreeMap, mem};

use serde_json::Value;

use crate::state::{Pointer, StateOp, pointer::push_escaped};

/// The places that writers have changed so far. Writers are numbered, and processed, in order.
#[derive(Debug, Default)]
pub(super) struct Touches<'a> {
    root: Place<'a>,
}

/// One place and those below it.
#[derive(Debug, Default)]
struct Place<'a> {
    /// How the place itself was changed last.
    manner: Option<Manner<'a>>,
    /// The writers whose changes of the place itself stand: the last one, and those that agree with it.
    standing: Vec<usize>,
    /// The writers whose changes here, above or below conflict with the standing ones.
    losers: Vec<usize>,
    /// The last two writers that changed something here or below, the last one first.
    recent: [Option<usize>; 2],
    children: BTreeMap<String, Place<'a>>,
}

/// Changes of one kind, by different writers, agree.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner<'a> {
    Append,
    Increment,
    Delete,
    Replace(&'a Value),
    /// Several changes of one writer, which agree with no other writer's.
    Mixed,
}

/// Writers whose changes conflict.
#[derive(Debug)]
pub(super) struct Overlap {
    pub(super) path: Pointer,
    pub(super) winner: usize,
    pub(super) losers: Vec<usize>,
}

impl<'a> Touches<'a> {
    /// Records that `writer` made a change.
    pub(super) fn touch(&mut self, writer: usize, op: &'a StateOp) {
        let mut losers = Vec::new();
        let mut place = &mut self.root;
        place.note_recent(writer);
        for segment in op.path().segments() {
            losers.extend(&place.standing);
            place = place.children.entry(segment.into_owned()).or_default();
            place.note_recent(writer);
        }
        // The changes below are now part of this change: they were overwritten or built upon.
        let mut absorbed = Vec::new();
        for child in mem::take(&mut place.children).into_values() {
            child.drain_into(&mut absorbed);
        }
        let manner = Manner::of(op);
        if place.manner != Some(manner) {
            absorbed.append(&mut place.standing);
        }
        let builds_on_own = manner.builds_on() && absorbed.contains(&writer);
        place.manner = Some(if builds_on_own { Manner::Mixed } else { manner });
        if place.standing.last() != Some(&writer) {
            place.standing.push(writer);
        }
        losers.append(&mut absorbed);
        place
            .losers
            .extend(losers.into_iter().filter(|loser| *loser != writer));
    }

    /// Returns the last writer, other than this one, that changed something at, above or below `path`.
    pub(super) fn last_other(&self, writer: usize, path: &Pointer) -> Option<usize> {
        let mut place = &self.root;
        let mut last = None;
        for segment in path.segments() {
            last = last.max(
                place
                    .standing
                    .iter()
                    .rev()
                    .find(|other| **other != writer)
                    .copied(),
            );
            match place.children.get(&*segment) {
                Some(child) => place = child,
                None => return last,
            }
        }
        last.max(
            place
                .recent
                .into_iter()
                .flatten()
                .find(|other| *other != writer),
        )
    }

    /// Returns all overlaps, by path.
    pub(super) fn overlaps(self) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        self.root.overlaps_into(&mut String::new(), &mut overlaps);
        overlaps
    }
}

impl Place<'_> {
    fn note_recent(&mut self, writer: usize) {
        let [last, _] = self.recent;
        if last != Some(writer) {
            self.recent = [Some(writer), last];
        }
    }

    /// Moves all writers that changed something here or below into `writers`.
    fn drain_into(mut self, writers: &mut Vec<usize>) {
        writers.append(&mut self.standing);
        writers.append(&mut self.losers);
        for child in self.children.into_values() {
            child.drain_into(writers);
        }
    }

    fn overlaps_into(mut self, path: &mut String, out: &mut Vec<Overlap>) {
        if let (Some(winner), false) = (self.standing.last(), self.losers.is_empty()) {
            self.losers.sort_unstable();
            self.losers.dedup();
            out.push(Overlap {
                path: Pointer::from_escaped(path),
                winner: *winner,
                losers: self.losers,
            });
        }
        let end = path.len();
        for (key, child) in self.children {
            push_escaped(path, &key);
            child.overlaps_into(path, out);
            path.truncate(end);
        }
    }
}

impl<'a> Manner<'a> {
    /// Whether the outcome depends on the value before.
    fn builds_on(self) -> bool {
        matches!(self, Self::Append | Self::Increment)
    }

    fn of(op: &'a StateOp) -> Self {
        match op {
            StateOp::Append { .. } => Self::Append,
            StateOp::Increment { .. } => Self::Increment,
            StateOp::Delete { .. } => Self::Delete,
            StateOp::Replace { value, .. } => Self::Replace(value),
        }
    }
}
