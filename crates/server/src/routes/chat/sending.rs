//! New messages: the first of a session, the next of it, edited ones, and those that are to be answered once more.

use std::collections::BTreeMap;

use helix_agents_core::entries::{AsRead, EntryError, ExecuteRequest};
use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::runtime::{RunOptions, RuntimeError, StartedRun};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{
    MAX_LABEL_BYTES, MAX_METADATA_BYTES, MAX_METADATA_KEYS, Page, Snapshot, StoreError,
};
use helix_agents_core::{MessageId, RunId};
use helix_agents_wire::{
    IncomingMessage, ResumePosition, Trigger, UiRole, convert_messages, extract_resume_intent,
    replay_message,
};
use serde_json::{Map, Value};

use super::attaching::replay;
use super::bubble::{Bubble, first_of_turn};
use super::feed::{BubbleFeed, Feed};
use super::history::options;
use super::known::{Known, known_of, look_up, new_of};
use super::posting::Post;
use super::{answering, attaching};
use crate::view::all_pending;
use crate::{Access, ApiError};

/// How often a request is planned again when another one was faster.
const MAX_ATTEMPTS: usize = 32;
/// The number of messages that are read at once.
const BATCH: usize = 256;

/// Starts a turn with the messages that users wrote at the end of a chat, unless the session has them already.
pub(super) async fn send(post: &Post<'_>) -> Result<Feed, ApiError> {
    let mut first = None;
    for _ in 0..MAX_ATTEMPTS {
        let found = post.caller.find_if_any(post.app, &post.session).await?;
        let run = found.as_ref().and_then(|found| found.run.as_ref());
        let first = first.get_or_insert_with(|| run.map(|run| run.id.clone()));
        let sent = match found {
            None => start(post, None, post.body.trailing_user_messages(), None).await,
            Some(found) => {
                post.may(&found).await?;
                let is_first = run_of(&found) == first.as_ref();
                match next(post, found, is_first).await? {
                    Next::Feed(feed) => return Ok(feed),
                    Next::Sent(sent) => sent,
                }
            }
        };
        match sent {
            Ok(run) => return Ok(Feed::Bubble(BubbleFeed::whole(run))),
            // Somebody else was faster, perhaps with the same message.
            Err(Refused::Changed) => {}
            Err(Refused::For(error)) => return Err(error),
        }
    }
    Err(ApiError::overloaded(
        "the session changes all the time; send the message again",
    ))
}

enum Next {
    /// The session has the message already.
    Feed(Feed),
    Sent(Result<StartedRun, Refused>),
}

enum Refused {
    Changed,
    For(ApiError),
}

impl<E: Into<ApiError>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::For(error.into())
    }
}

fn run_of(found: &Snapshot) -> Option<&RunId> {
    found.run.as_ref().map(|run| &run.id)
}

/// `is_first` is whether no run has started since the request was made.
async fn next(post: &Post<'_>, found: Snapshot, is_first: bool) -> Result<Next, ApiError> {
    let tail = post.body.trailing_user_messages();
    let is_edit = edited(post, tail).is_some();
    let known = look_up(post.app, &found, tail, is_edit).await?;
    if !known.is_empty() {
        // Where they stand is of the same moment as the rest, or the bubble of another turn would be shown.
        let now = post.caller.find(post.app, &post.session).await?;
        if (now.cuts, run_of(&now)) != (found.cuts, run_of(&found)) {
            return Ok(Next::Sent(Err(Refused::Changed)));
        }
    }
    let is_known = |message: &IncomingMessage| known_of(&known, message).is_some();
    let edited = edited(post, tail).filter(|message| is_known(message));
    if let Some(message) = edited {
        return edit(post, (found, is_first), tail, (message, &known)).await;
    }
    // What stood before it may have been taken back.
    let visible = tail.iter().rfind(|message| !message.is_hidden());
    let is_repeated = match visible {
        Some(last) => is_known(last),
        None => tail.iter().all(is_known),
    };
    if is_repeated {
        // A hidden one that is used again stands with the last turn that has it.
        let last = visible.or(tail.last());
        let last = last.and_then(|last| known_of(&known, last));
        return repeated(post, &found, last).await.map(Next::Feed);
    }
    let new = new_of(tail, &known);
    // What was answered together with the message is not lost.
    let pending = all_pending(post.app.store(), found.state.root()).await?;
    let intents = extract_resume_intent(&post.body.messages, &pending);
    let intents = intents
        .map_err(|error| ApiError::invalid(error.to_string()))?
        .intents;
    if !intents.is_empty() {
        answering::submit(post, &found, &pending, intents).await?;
        return Ok(Next::Sent(Err(Refused::Changed)));
    }
    Ok(Next::Sent(start(post, Some(found), new, None).await))
}

/// The message whose turn is to be made again.
fn edited<'a>(post: &Post<'_>, tail: &'a [IncomingMessage]) -> Option<&'a IncomingMessage> {
    let named = |id: &str| {
        tail.iter()
            .find(|message| message.id.as_deref() == Some(id))
    };
    let visible = || tail.iter().rev().find(|message| !message.is_hidden());
    match post.body.trigger {
        // It may name the answer, which the client has cut off.
        Trigger::RegenerateMessage => visible().or(tail.last()),
        _ => post.body.message_id.as_deref().and_then(named),
    }
}

/// Puts a turn in the place of one that the session has.
async fn edit(
    post: &Post<'_>,
    (found, is_first): (Snapshot, bool),
    tail: &[IncomingMessage],
    (message, known): (&IncomingMessage, &[Known]),
) -> Result<Next, ApiError> {
    let Some(edited) = known_of(known, message) else {
        return Ok(Next::Sent(Err(Refused::Changed)));
    };
    let is_same = message
        .to_user_message(fallback(post))?
        .same_as(&edited.message);
    let id = edited.message.id.clone();
    let Some(position) = edited.position else {
        // It waits for its run.
        if is_same {
            return repeated(post, &found, Some(edited)).await.map(Next::Feed);
        }
        let is_it = |one: &IncomingMessage| one.id == message.id;
        let from = tail.iter().rposition(is_it).unwrap_or_default();
        let messages = tail.get(from..).unwrap_or_default();
        return Ok(Next::Sent(start(post, Some(found), messages, id).await));
    };
    let bubble = found.run.as_ref().map(Bubble::of);
    let is_latest = bubble.is_some_and(|bubble| position >= bubble.turn_begins_at);
    let is_running = found.run.as_ref().is_some_and(|run| {
        run.status == RunStatus::Running
            && found.stop.as_ref().is_none_or(|stop| stop.run_id != run.id)
    });
    // Of two equal requests at once the other one has made the answer again.
    let is_regenerated = post.body.trigger == Trigger::RegenerateMessage && is_first;
    if is_latest && is_same && (is_running || !is_regenerated) {
        return repeated(post, &found, Some(edited)).await.map(Next::Feed);
    }
    // The turn is taken back with all messages that began it. Those of earlier turns that nobody answered stand before
    // it, too.
    let first = first_of_turn(post.app, &found, position).await?;
    let is_before = |message: &IncomingMessage| {
        let position = known_of(known, message).and_then(|known| known.position);
        position.is_some_and(|position| position < first)
    };
    let from = tail
        .iter()
        .rposition(is_before)
        .map_or(0, |before| before + 1);
    let messages = tail.get(from..).unwrap_or_default();
    Ok(Next::Sent(start(post, Some(found), messages, id).await))
}

/// Answers a request whose messages the session has: with the bubble in flight or the last one, or with the one that
/// answered them.
async fn repeated(
    post: &Post<'_>,
    found: &Snapshot,
    last: Option<&Known>,
) -> Result<Feed, ApiError> {
    let position = last.and_then(|last| last.position);
    let (Some(position), Some(run)) = (position, &found.run) else {
        return match attaching::waiting(found) {
            Some(run) => Ok(Feed::Bubble(BubbleFeed::whole(run))),
            None => whole(post, found).await,
        };
    };
    let bubble = Bubble::of(run);
    if position >= bubble.turn_begins_at {
        let kept = attaching::bubble(post.app, (found, run), &ResumePosition::default()).await?;
        return kept.ok_or_else(unanswered);
    }
    // An earlier turn: its chunks are in the middle of the stream, its messages are at hand.
    let mut end = position;
    let mut messages = Vec::new();
    let mut is_answered = false;
    'turn: while end < bubble.turn_begins_at {
        let page = Page::new(end, BATCH.min(bubble.turn_begins_at - end));
        let read = post
            .app
            .store()
            .messages(found.state.key(), page)
            .await?
            .items;
        if read.is_empty() {
            break;
        }
        for message in read {
            let is_user =
                matches!(&message, Message::User(user) if helix_agents_wire::begins_turn(user));
            if is_user && is_answered {
                break 'turn;
            }
            is_answered |= !is_user;
            messages.push(message);
            end += 1;
        }
    }
    let options = options(post.app, found).await?;
    let messages = convert_messages(messages, &options.first(position));
    match messages
        .iter()
        .find(|message| message.role == UiRole::Assistant)
    {
        Some(message) => Ok(Feed::Chunks(replay_message(message))),
        None => whole(post, found).await,
    }
}

/// The bubble in flight or the last one, from its beginning on.
async fn whole(post: &Post<'_>, found: &Snapshot) -> Result<Feed, ApiError> {
    let feed = replay(post.app, found, &ResumePosition::default()).await?;
    feed.ok_or_else(unanswered)
}

fn unanswered() -> ApiError {
    ApiError::stale("the session has the message already, and never answered it")
}

/// Starts a turn.
async fn start(
    post: &Post<'_>,
    found: Option<Snapshot>,
    messages: &[IncomingMessage],
    edits: Option<MessageId>,
) -> Result<StartedRun, Refused> {
    let app = post.app;
    let user = post.caller.principal.user.as_ref();
    let agent = match &found {
        Some(found) => post
            .agent
            .clone()
            .unwrap_or_else(|| found.state.agent_type.to_string()),
        None => post.agent.clone().map_or_else(|| default_agent(post), Ok)?,
    };
    if found.is_none() {
        if user.is_none() && !post.caller.principal.admin {
            let detail = "the session would have no owner; sign in as a user to start one";
            return Err(ApiError::forbidden(detail).into());
        }
        let access = Access::new(post.caller.operation).to(&post.session, &agent);
        post.caller.may(app, access).await?;
    }
    let messages = messages
        .iter()
        .map(|message| message.to_user_message(fallback(post)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(ApiError::from)?;
    let metadata = session_metadata(post, found.as_ref());
    let mut request = ExecuteRequest::by_name(agent, messages)
        .in_session(post.session.clone())
        .double_texting(app.double_texting)
        .abandon_pending(true)
        .unless_changed()
        .as_read(match found {
            Some(found) => AsRead::from(Some(found)),
            None => AsRead::Absent,
        });
    request.user_id = user.cloned();
    request.edits = edits;
    request.metadata = metadata;
    let admitted = app.quota.admit(app.store(), user).await?;
    match app.runtime.start(request, RunOptions::default()).await {
        Ok(run) => {
            admitted.started(&run);
            Ok(run)
        }
        Err(RuntimeError::Entry(
            EntryError::Changed { .. } | EntryError::Store(StoreError::AlreadyExists { .. }),
        )) => Err(Refused::Changed),
        Err(error) => Err(error.into()),
    }
}

/// The agent of a chat that names none.
fn default_agent(post: &Post<'_>) -> Result<String, ApiError> {
    let names = || post.app.runtime.agents().names().into_iter();
    let agent = post.app.default_agent.clone().or_else(|| names().next());
    agent.ok_or_else(|| ApiError::invalid("the server has no agent; register one"))
}

/// The metadata of the session: the texts in that of the request. Metadata with which the session would have too much
/// is dropped, as that of a message is.
fn session_metadata(post: &Post<'_>, found: Option<&Snapshot>) -> BTreeMap<String, String> {
    let given = post.body.metadata.iter().flatten();
    let texts = given.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    let texts: BTreeMap<_, _> = texts.collect();
    let has = found.iter().flat_map(|found| &found.state.metadata);
    let kept = has.filter(|(key, _)| !texts.contains_key(*key));
    let (mut keys, mut bytes) = (0, 0);
    for (key, value) in kept.chain(&texts) {
        keys += 1;
        bytes += key.len() + value.len();
    }
    let is_long = texts.keys().any(|key| key.len() > MAX_LABEL_BYTES);
    match is_long || keys > MAX_METADATA_KEYS || bytes > MAX_METADATA_BYTES {
        true => BTreeMap::new(),
        false => texts,
    }
}

fn fallback<'a>(post: &'a Post<'_>) -> Option<&'a Map<String, Value>> {
    post.body.metadata.as_ref()
}

/// Whether two messages say the same.
trait SameAs {
    fn same_as(&self, other: &Self) -> bool;
}

impl SameAs for UserMessage {
    fn same_as(&self, other: &Self) -> bool {
        self.content == other.content && self.files == other.files
    }
}
