//! What is typed at the terminal.

use std::io;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The lines that are typed. One thread reads them from the first question on, so whoever stops
/// waiting for a line takes none away.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    lines: Option<UnboundedReceiver<io::Result<String>>>,
}

impl Typed {
    /// Forgets what was typed before: it answers nothing that is asked from now on.
    pub(crate) fn forget(&mut self) {
        forget_queued();
        if let Some(lines) = &mut self.lines {
            while lines.try_recv().is_ok() {}
        }
    }

    /// The next line; `None` when nobody types any more. Safe to drop while it waits.
    pub(crate) async fn next(&mut self) -> io::Result<Option<String>> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => self.lines.insert(begin()?),
        };
        lines.recv().await.transpose()
    }
}

/// Forgets what the terminal holds and nobody has read.
#[cfg(unix)]
fn forget_queued() {
    use rustix::termios::{QueueSelector, tcflush};
    if let Err(error) = tcflush(io::stdin(), QueueSelector::IFlush) {
        tracing::debug!(event = "stdin.not_flushed", %error);
    }
}

#[cfg(not(unix))]
fn forget_queued() {}

/// Starts the thread. It does not keep the process.
fn begin() -> io::Result<UnboundedReceiver<io::Result<String>>> {
    let (tell, lines) = unbounded_channel();
    let read = move || {
        for line in io::stdin().lines() {
            let is_last = line.is_err();
            if tell.send(line).is_err() || is_last {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("helix-stdin".to_owned());
    thread.spawn(read)?;
    Ok(lines)
}
