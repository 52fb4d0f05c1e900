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
    /// The next line; `None` when nobody types any more. Safe to drop while it waits.
    pub(crate) async fn next(&mut self) -> io::Result<Option<String>> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => self.lines.insert(begin()?),
        };
        lines.recv().await.transpose()
    }
}

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
