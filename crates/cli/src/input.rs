//! Input lines from the terminal.

use std::io;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The lines typed by the user. One thread reads them, starting with the first question, so a
/// caller that stops waiting for a line does not lose it.
#[derive(Debug, Default)]
pub(crate) struct Input {
    lines: Option<UnboundedReceiver<io::Result<String>>>,
}

impl Input {
    /// Discards all input so far, which cannot answer a later question.
    pub(crate) fn forget(&mut self) {
        forget_queued();
        if let Some(lines) = &mut self.lines {
            while lines.try_recv().is_ok() {}
        }
    }

    /// Returns the next line, or `None` at the end of input. Cancel safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<String>> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => self.lines.insert(begin()?),
        };
        lines.recv().await.transpose()
    }
}

/// Discards input that the terminal has buffered.
#[cfg(unix)]
fn forget_queued() {
    use rustix::termios::{QueueSelector, tcflush};
    if let Err(error) = tcflush(io::stdin(), QueueSelector::IFlush) {
        tracing::debug!(event = "stdin.not_flushed", %error);
    }
}

#[cfg(not(unix))]
fn forget_queued() {}

/// Starts the reading thread, which does not keep the process alive.
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
