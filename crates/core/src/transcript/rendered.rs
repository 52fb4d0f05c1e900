//! The messages of a log as model clients send them.
//!
//! What is rendered belongs to a log and not to a transcript: the messages of a log never change, so
//! clones share it whatever their length, and a clone that parts gets a log of its own.

use std::any::Any;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Transcript;
use crate::model::{MessageFormat, ModelError};

/// How many formats of a conversation are kept: those of a model and of its stand-in.
const FORMATS: usize = 2;

/// The messages in the formats that were last asked for, the latest one first.
#[derive(Default)]
pub(super) struct Renderings(Mutex<Vec<Rendering>>);

/// The first messages of a log in one format.
struct Rendering {
    format: Box<dyn Any + Send + Sync>,
    bytes: Vec<u8>,
    /// Where each message ends in the bytes.
    ends: Vec<usize>,
}

impl Rendering {
    fn new<F: MessageFormat>(format: &F) -> Self {
        Self {
            format: Box::new(format.clone()),
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Returns the first `len` messages.
    fn first(&self, len: usize) -> Option<&[u8]> {
        match len.checked_sub(1) {
            None => Some(&[]),
            Some(last) => self.bytes.get(..*self.ends.get(last)?),
        }
    }

    /// Adds messages that were rendered to follow those that are known, unless others were added
    /// since.
    fn add(&mut self, more: &More) {
        if self.ends.len() == more.known {
            let before = self.bytes.len();
            self.bytes.extend_from_slice(&more.bytes);
            self.ends.extend(more.ends.iter().map(|end| before + end));
        }
    }
}

/// Messages that are rendered and not yet added.
#[derive(Default)]
struct More {
    /// How many messages come before them.
    known: usize,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Renderings {
    fn lock(&self) -> MutexGuard<'_, Vec<Rendering>> {
        // A rendering is put back whole, and no format renders under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops everything that was rendered.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Hands the rendering of a format to `act`.
    fn with<F: MessageFormat, R>(&self, format: &F, act: impl FnOnce(&mut Rendering) -> R) -> R {
        let mut all = self.lock();
        let same = |one: &Rendering| one.format.downcast_ref() == Some(format);
        let mut rendering = match all.iter().position(same) {
            Some(at) => all.remove(at),
            None => Rendering::new(format),
        };
        let result = act(&mut rendering);
        all.insert(0, rendering);
        all.truncate(FORMATS);
        result
    }
}

impl Transcript {
    /// Appends the whole conversation to `body`, in the format of a model client.
    ///
    /// Each message is rendered once, and not again for every request: clones of this transcript
    /// share what was rendered, which is dropped with the last of them. It is kept for the last two
    /// formats.
    ///
    /// # Errors
    /// The first error of the format; nothing is appended then.
    pub fn render_into<F: MessageFormat>(
        &self,
        format: &F,
        body: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        let mut more = More::default();
        loop {
            let known = self.log.renderings().with(format, |rendering| {
                rendering.add(&more);
                let Some(bytes) = rendering.first(self.len()) else {
                    return Some(rendering.ends.len());
                };
                body.extend_from_slice(bytes);
                None
            });
            match known {
                Some(known) => more = self.render_from(known, format)?,
                None => return Ok(()),
            }
        }
    }

    /// Renders the messages from a position on.
    fn render_from<F: MessageFormat>(&self, known: usize, format: &F) -> Result<More, ModelError> {
        let mut more = More {
            known,
            ..More::default()
        };
        let mut piece = Vec::new();
        let mut previous = known.checked_sub(1).and_then(|before| self.get(before));
        for message in self.iter_from(known) {
            piece.clear();
            format.render(message, previous, &mut piece)?;
            more.bytes.extend_from_slice(&piece);
            more.ends.push(more.bytes.len());
            previous = Some(message);
        }
        Ok(more)
    }
}
