//! A thread that polls for writes of other processes while a caller waits for them.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::change_notifier::ChangeNotifier;
use crate::writer::Writer;

/// The polling interval, and so the longest delay with which a foreign write is noticed.
const INTERVAL: Duration = Duration::from_millis(10);

/// Starts the thread. It sleeps while there are no listeners, and ends with the store: the channel is
/// disconnected then.
pub(crate) fn start(
    notifier: &Arc<ChangeNotifier>,
    writer: &Arc<Writer>,
) -> std::io::Result<Receiver<()>> {
    let notifier = Arc::clone(notifier);
    let writer = Arc::downgrade(writer);
    let (sender, ended) = channel();
    let watch = move || {
        watch(&notifier, &writer);
        drop(sender);
    };
    thread::Builder::new()
        .name("helix-sqlite".to_owned())
        .spawn(watch)?;
    Ok(ended)
}

fn watch(notifier: &ChangeNotifier, writer: &Weak<Writer>) {
    while notifier.wait_for_listeners(INTERVAL) {
        let Some(writer) = writer.upgrade() else {
            return;
        };
        // If the connection is in use, its user checks for foreign changes itself.
        if let Some(mut state) = writer.try_lock() {
            writer.subscribe(&mut state);
            writer.serve(state);
        }
    }
}
