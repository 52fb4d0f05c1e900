//! The bubble of a turn: where it begins in the stream and in the history.

use helix_agents_core::session::{RunRecord, RunStatus};
use helix_agents_core::store::{Lookup, Page, Snapshot};
use helix_agents_core::stream::Sequence;
use helix_agents_wire::bubble_id;

use crate::ApiError;
use crate::builder::App;

/// The number of runs that are read at once.
const BATCH: usize = 64;

/// The bubble of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bubble {
    /// The id of its message.
    pub(super) id: String,
    /// The position before its first chunk.
    pub(super) after: Sequence,
    /// The number of messages before it, those of the user who began it included.
    pub(super) begins_at: usize,
    /// The number of messages before those of the user.
    pub(super) turn_begins_at: usize,
}

impl Bubble {
    /// The bubble of the turn to which a run belongs.
    pub(super) fn of(run: &RunRecord) -> Self {
        let Some(start) = run.turn_start else {
            // An earlier version of the library started the turn.
            return Self {
                id: format!("msg-{}", run.id),
                after: Sequence(run.start_sequence),
                begins_at: 0,
                turn_begins_at: 0,
            };
        };
        let sent = usize::try_from(start.user_messages).unwrap_or(usize::MAX);
        let begins_at = start.messages.saturating_add(sent);
        Self {
            id: bubble_id(begins_at),
            after: Sequence(start.sequence),
            begins_at,
            turn_begins_at: start.messages,
        }
    }
}

/// The bubble to which a run in progress, or one that waits for somebody, still adds.
pub(super) fn in_flight(found: &Snapshot) -> Option<Bubble> {
    let run = found.run.as_ref().filter(|_| found.state.key().is_root())?;
    // Of a turn that was imported the messages are all there is.
    let goes_on = run.status == RunStatus::Running || run.status.is_suspended();
    (goes_on && run.turn_start.is_some()).then(|| Bubble::of(run))
}

/// The position of the first message of the turn that the message at a position began; that position itself if no run
/// says so.
pub(super) async fn first_of_turn(
    app: &App,
    found: &Snapshot,
    position: usize,
) -> Result<usize, ApiError> {
    let key = found.state.key();
    let none = Lookup::Page(Page::first(0));
    let mut end = app.store().runs(key, none).await?.total;
    // Of two runs that began at the same place the later one counts: the other was taken back.
    while end > 0 {
        let start = end.saturating_sub(BATCH);
        let page = Lookup::Page(Page::new(start, end - start));
        for run in app.store().runs(key, page).await?.items.iter().rev() {
            let bubble = Bubble::of(run);
            if (bubble.turn_begins_at..bubble.begins_at).contains(&position) {
                return Ok(bubble.turn_begins_at);
            }
        }
        end = start;
    }
    Ok(position)
}

/// Reads the runs of the current turn, oldest first.
pub(super) async fn runs_of_turn(app: &App, found: &Snapshot) -> Result<Vec<RunRecord>, ApiError> {
    let Some(last) = &found.run else {
        return Ok(Vec::new());
    };
    let key = found.state.key();
    let none = Lookup::Page(Page::first(0));
    let mut end = app.store().runs(key, none).await?.total;
    let mut runs = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BATCH);
        let page = Lookup::Page(Page::new(start, end - start));
        for run in app.store().runs(key, page).await?.items.into_iter().rev() {
            if (run.turn, run.turn_start) != (last.turn, last.turn_start) {
                runs.reverse();
                return Ok(runs);
            }
            runs.push(run);
        }
        end = start;
    }
    runs.reverse();
    Ok(runs)
}
