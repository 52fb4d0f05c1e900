//! Looks out for what other processes write, while somebody waits for it.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::change_notifier::Bells;
use crate::writer::Writer;

/// Another process's write is seen this late at most.
const EVERY: Duration = Duration::from_millis(10);

/// Starts the thread. It sleeps while nobody waits, and ends with the store.
pub(crate) fn start(bells: &Arc<Bells>, writer: &Arc<Writer>) -> std::io::Result<()> {
    let bells = Arc::clone(bells);
    let writer = Arc::downgrade(writer);
    let watch = move || watch(&bells, &writer);
    thread::Builder::new()
        .name("helix-sqlite".to_owned())
        .spawn(watch)
        .map(drop)
}

fn watch(bells: &Bells, writer: &Weak<Writer>) {
    while bells.pause(EVERY) {
        let Some(writer) = writer.upgrade() else {
            return;
        };
        // Whoever has the connection at this moment looks around itself.
        if let Some(mut slot) = writer.try_lock() {
            writer.listen(&mut slot);
            writer.serve(slot);
        }
    }
}
