//! Queries over many sessions. Each shard answers from its indexes, and the answers are merged.

use std::cmp::Reverse;

use futures_util::future::try_join_all;
use helix_agents_core::session::{PendingCall, SessionState};
use helix_agents_core::store::{Page, PageRoom, Paged, ParentFilter, PendingQuery, SessionQuery};
use helix_agents_core::stored::decode;
use helix_agents_core::{CallId, SessionId};

use crate::documents::StoredAnswer;
use crate::failure::{Failure, Result};
use crate::head::Place;
use crate::index::{END, Indexes, PendingMember, instant, split};
use crate::keys::Shard;
use crate::reading::size;
use crate::reply;
use crate::script::{Arguments, Reads};
use crate::store::RedisStore;

/// The members of an index of all shards, in the order of the list.
struct Merged {
    total: usize,
    /// Those of the page, each with its shard.
    members: Vec<(String, Shard)>,
}

/// Gives the indexes of a shard whose common members are listed; several lists of a shard have none in common.
type Choose<'a> = Box<dyn Fn(&Indexes<'_>) -> Vec<Vec<String>> + Send + Sync + 'a>;

/// A question to the indexes of each shard.
struct Question<'a> {
    indexes: Choose<'a>,
    from: String,
    to: String,
    last_first: bool,
    page: Page,
}

async fn ask(store: &RedisStore, question: &Question<'_>) -> Result<Merged> {
    let page = question.page;
    let wanted = page
        .offset
        .saturating_add(page.limit)
        .min(i32::MAX as usize);
    let order = if question.last_first { "1" } else { "0" };
    let words = [
        question.from.as_str(),
        &question.to,
        &wanted.to_string(),
        order,
    ];
    let arguments = &Arguments::of(words);
    let asked = store.keys().shards().flat_map(|shard| {
        let indexes = Indexes {
            keys: store.keys(),
            shard,
        };
        let lists = (question.indexes)(&indexes);
        lists.into_iter().map(move |keys| (shard, keys))
    });
    let answers = asked.map(|(shard, keys)| async move {
        let script = &store.inner.scripts.index;
        let answer = store.ask(shard, script, &keys, arguments).await?;
        let mut answer = reply::list(answer)?.into_iter();
        let total = reply::number(answer.next().unwrap_or_default())?;
        let members = reply::present(answer.next().unwrap_or_default())?;
        Ok::<_, Failure>((shard, total, members))
    });
    let (mut total, mut members) = (0, Vec::new());
    for (shard, count, found) in try_join_all(answers).await? {
        total += size(count);
        members.extend(found.into_iter().map(|member| (member, shard)));
    }
    match question.last_first {
        true => members.sort_by(|a, b| Reverse(&a.0).cmp(&Reverse(&b.0))),
        false => members.sort_by(|a, b| a.0.cmp(&b.0)),
    }
    let members = members.into_iter().skip(page.offset).take(page.limit);
    Ok(Merged {
        total,
        members: members.collect(),
    })
}

/// The indexes that a query names: a session is listed if it is in all of them.
fn indexes_of(query: &SessionQuery, at: &Indexes<'_>) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    all.extend(query.user_id.iter().map(|user| at.user(user.as_str())));
    all.extend(query.agent_type.iter().map(|agent| at.agent(agent)));
    match &query.parent {
        ParentFilter::Any => {}
        ParentFilter::Roots => all.push(at.roots()),
        ParentFilter::Of(parent) => all.push(at.parent(parent)),
    }
    all.extend(query.tags.iter().map(|tag| at.tag(tag)));
    let metadata = query.metadata.iter();
    all.extend(metadata.map(|(key, value)| at.metadata(key, value)));
    let mut statuses = query.status.clone();
    statuses.dedup();
    if statuses.is_empty() {
        if all.is_empty() {
            all.push(at.sessions());
        }
        return vec![all];
    }
    // A session has one status, so these have no member in common.
    let mut seen = Vec::new();
    for status in statuses {
        let index = at.status(status);
        if !seen.contains(&index) {
            seen.push(index);
        }
    }
    let with = |index| all.iter().cloned().chain([index]).collect();
    seen.into_iter().map(with).collect()
}

/// Lists sessions, newest first.
pub(crate) async fn list(store: &RedisStore, query: &SessionQuery) -> Result<Paged<SessionState>> {
    let page = query.page.capped();
    let question = Question {
        indexes: Box::new(|at| indexes_of(query, at)),
        from: query
            .from
            .map_or_else(|| "-".to_owned(), |from| format!("[{}", instant(from))),
        to: query
            .to
            .map_or_else(|| "+".to_owned(), |to| format!("[{}{END}", instant(to))),
        last_first: true,
        page,
    };
    let Merged { total, members } = ask(store, &question).await?;
    let heads = members.iter().map(|(member, shard)| async move {
        let session = SessionId::new(split(member)?.1)?;
        let mut reads = Reads::default();
        reads.place(&store.keys().head(*shard, &session));
        Place::of(&mut store.read(*shard, reads).await?)
    });
    let (mut items, mut room) = (Vec::new(), PageRoom::of(page));
    for place in try_join_all(heads).await? {
        // One that was deleted meanwhile is left out.
        let Some(head) = place.head else { continue };
        let session = head.header.session.clone();
        if !room.takes(&session) {
            break;
        }
        items.push(session);
    }
    Ok(Paged::new(items, total, page))
}

/// Lists pending calls without an answer, oldest first.
pub(crate) async fn pending(
    store: &RedisStore,
    query: &PendingQuery,
) -> Result<Paged<PendingCall>> {
    let page = query.page.capped();
    let own = query
        .root
        .as_ref()
        .map(|root| store.keys().shard(root.as_str()));
    let question = Question {
        indexes: Box::new(|at| {
            if own.is_some_and(|own| own != at.shard) {
                return Vec::new();
            }
            let user = query
                .user_id
                .iter()
                .map(|user| at.pending_of_user(user.as_str()));
            let root = query.root.iter().map(|root| at.pending_of_root(root));
            let all: Vec<_> = user.chain(root).collect();
            vec![if all.is_empty() {
                vec![at.pending()]
            } else {
                all
            }]
        }),
        from: "-".to_owned(),
        to: "+".to_owned(),
        last_first: false,
        page,
    };
    let Merged { total, members } = ask(store, &question).await?;
    let calls = members.iter().map(|(member, shard)| async move {
        let name: PendingMember = serde_json::from_str(split(member)?.1)
            .map_err(|error| Failure::corrupt("index", error.to_string()))?;
        call(store, *shard, &name.0, &name.1).await
    });
    let (mut items, mut room) = (Vec::new(), PageRoom::of(page));
    for call in try_join_all(calls).await?.into_iter().flatten() {
        if !room.takes(&call) {
            break;
        }
        items.push(call);
    }
    Ok(Paged::new(items, total, page))
}

async fn call(
    store: &RedisStore,
    shard: Shard,
    session: &SessionId,
    call: &CallId,
) -> Result<Option<PendingCall>> {
    let keys = store.keys().session(shard, session);
    let mut reads = Reads::default();
    let fields = [format!("p:{call}"), format!("pa:{call}")];
    reads.fields(&keys.documents, fields.iter().map(String::as_str));
    let mut texts = reply::texts(store.read(shard, reads).await?.next()?)?.into_iter();
    let mut next = || texts.next().flatten();
    let Some(text) = next() else {
        return Ok(None);
    };
    let mut pending: PendingCall = decode(&text)?;
    if let Some(answer) = next() {
        pending.answer = Some(decode::<StoredAnswer>(&answer)?.0);
    }
    Ok(Some(pending))
}
