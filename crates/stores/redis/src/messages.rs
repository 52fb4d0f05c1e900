//! The messages of a session: a sorted set with one member for a user message or the messages of a step, whose score is
//! the position of the first.

use helix_agents_core::message::Message;
use helix_agents_core::store::{Page, PageRoom, Paged};
use helix_agents_core::stored::decode;

use crate::documents::StoredMessages;
use crate::failure::{Failure, Result};
use crate::keys::SessionKeys;
use crate::reading::Session;
use crate::reply::{self, Answers};
use crate::script::{Reads, words};

/// How many rows are read at once where the size of the page is limited.
const ROWS: usize = 32;

/// A row, which begins with its position: no two rows are equal.
pub(crate) fn member(at: usize, text: &str) -> String {
    format!("{at}:{text}")
}

fn row(member: &str) -> Result<(usize, Vec<Message>)> {
    let parts = member.split_once(':');
    let parts = parts.and_then(|(at, text)| Some((at.parse().ok()?, text)));
    let (at, text) = parts.ok_or_else(|| Failure::corrupt("message", "a row has no position"))?;
    Ok((at, decode::<StoredMessages>(text)?.0))
}

/// Asks for the row with a position, and all rows after it.
pub(crate) fn ask_from(reads: &mut Reads, keys: &SessionKeys, position: usize) {
    ask(reads, keys, position, usize::MAX, -1);
}

fn ask(reads: &mut Reads, keys: &SessionKeys, position: usize, end: usize, rows: isize) {
    let (key, at) = (keys.messages.as_str(), position.to_string());
    let after = format!("({at}");
    reads.ask(words![
        "ZREVRANGEBYSCORE",
        key,
        at,
        "-inf",
        "LIMIT",
        "0",
        "1"
    ]);
    let end = match end {
        usize::MAX => "+inf".to_owned(),
        end => format!("({end}"),
    };
    let rows = rows.to_string();
    reads.ask(words!["ZRANGEBYSCORE", key, after, end, "LIMIT", "0", rows]);
}

/// Takes the rows that [`ask_from`] asked for.
pub(crate) fn rows_from(answers: &mut Answers) -> Result<Vec<(usize, Vec<Message>)>> {
    let mut members = reply::present(answers.next()?)?;
    members.extend(reply::present(answers.next()?)?);
    members.iter().map(|member| row(member)).collect()
}

/// Reads a page; `None` if the session has changed meanwhile.
pub(crate) async fn page(session: &Session<'_>, page: Page) -> Result<Option<Paged<Message>>> {
    let total = session.head.header.messages;
    let (mut items, mut room) = (Vec::new(), PageRoom::of(page));
    let end = page.offset.saturating_add(page.limit).min(total);
    let mut at = page.offset;
    let rows = if page.bytes.is_some() {
        ROWS as isize
    } else {
        -1
    };
    let mut is_full = false;
    loop {
        let mut reads = Reads::default();
        if at < end {
            ask(&mut reads, &session.keys, at, end, rows);
        }
        let Some(mut answers) = session.read(reads).await? else {
            return Ok(None);
        };
        if at >= end || is_full {
            return Ok(Some(Paged::new(items, total, page)));
        }
        let before = at;
        for (start, row) in rows_from(&mut answers)? {
            let wanted = row.into_iter().enumerate().skip(at.saturating_sub(start));
            for (place, message) in wanted {
                if start + place >= end || is_full {
                    break;
                }
                is_full = !room.takes(&message);
                if !is_full {
                    items.push(message);
                    at = start + place + 1;
                }
            }
        }
        if is_full || at >= end {
            return Ok(Some(Paged::new(items, total, page)));
        }
        if at == before {
            return Err(Failure::corrupt(
                "message",
                format!("there is none at position {at}"),
            ));
        }
    }
}

/// Finds how many of the stored messages stay so that no step is split.
pub(crate) async fn whole_steps(session: &Session<'_>, count: usize) -> Result<Option<usize>> {
    let total = session.head.header.messages;
    let mut keep = count.min(total);
    while keep < total {
        let mut reads = Reads::default();
        let (key, at) = (session.keys.messages.as_str(), keep.to_string());
        reads.ask(words![
            "ZREVRANGEBYSCORE",
            key,
            at,
            "-inf",
            "LIMIT",
            "0",
            "1"
        ]);
        let Some(mut answers) = session.read(reads).await? else {
            return Ok(None);
        };
        let members = reply::present(answers.next()?)?;
        let Some((start, row)) = members.first().map(|member| row(member)).transpose()? else {
            break;
        };
        let is_result = |position: usize| {
            matches!(
                row.get(position.saturating_sub(start)),
                Some(Message::Tool(_))
            )
        };
        let first = (start..=keep).rev().find(|position| !is_result(*position));
        match first {
            Some(found) => return Ok(Some(found)),
            None if start == 0 => return Ok(Some(0)),
            None => keep = start - 1,
        }
    }
    Ok(Some(keep))
}
