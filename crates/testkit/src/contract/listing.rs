//! Queries over many sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::session::SessionStatus;
use helix_agents_core::store::{Change, Field, NewSession, Page, ParentFilter, SessionQuery};

use super::Subject;
use super::builders::{changed, created, session, user};

/// Creates twelve sessions that differ in every field that can be filtered by, one second apart.
async fn crowd(on: &Subject) -> Vec<SessionId> {
    let mut all = Vec::new();
    for index in 0..12_usize {
        let id = session(&format!("s-{:02}", (index * 5) % 12));
        let mut new = NewSession::of(["writer", "reader"][index % 2]);
        new.user_id = (index % 3 != 2).then(|| user(&format!("u-{}", index % 3)));
        new.tags = [("even", 2), ("third", 3), ("quarter", 4)]
            .into_iter()
            .filter(|(_, of)| index % of == 0)
            .map(|(tag, _)| tag.to_owned())
            .collect();
        new.metadata = BTreeMap::from([
            ("parity".to_owned(), (index % 2).to_string()),
            (
                "size".to_owned(),
                if index < 6 { "small" } else { "large" }.to_owned(),
            ),
        ]);
        if index >= 8 {
            let parent: &SessionId = &all[index % 2];
            new.family = Some((parent.clone(), parent.clone()));
        }
        on.sessions().create_session(&id, new).await.unwrap();
        let status = [
            SessionStatus::Active,
            SessionStatus::Completed,
            SessionStatus::Failed,
        ];
        let status = Change::Set(Field::Status(status[index % 3]));
        changed(on, &id, status).await;
        all.push(id);
        on.clock.advance(Duration::from_secs(1));
    }
    all
}

fn query() -> SessionQuery {
    SessionQuery {
        page: Page::first(Page::MAX),
        ..SessionQuery::default()
    }
}

async fn listed(on: &Subject, query: &SessionQuery) -> Vec<SessionId> {
    let found = on.store.list(query).await.unwrap();
    assert_eq!((found.items.len(), found.has_more), (found.total, false));
    found.items.into_iter().map(|one| one.session_id).collect()
}

/// The sessions whose number satisfies a condition, newest first.
fn those(all: &[SessionId], which: impl Fn(usize) -> bool) -> Vec<SessionId> {
    (0..all.len())
        .rev()
        .filter(|at| which(*at))
        .map(|at| all[at].clone())
        .collect()
}

/// Each filter selects the sessions that match it, newest first.
///
/// proves: SES-13
pub async fn each_filter_of_a_list_selects_what_it_names(on: &Subject) {
    let begin = on.now();
    let all = crowd(on).await;
    let at = |index: u64| Some(begin.saturating_add(Duration::from_secs(index)));
    assert_eq!(listed(on, &query()).await, those(&all, |_| true));

    let mut of_user = query();
    of_user.user_id = Some(user("u-1"));
    assert_eq!(listed(on, &of_user).await, those(&all, |at| at % 3 == 1));
    let mut of_agent = query();
    of_agent.agent_type = Some("reader".to_owned());
    assert_eq!(listed(on, &of_agent).await, those(&all, |at| at % 2 == 1));
    let mut of_status = query();
    of_status.status = vec![SessionStatus::Failed];
    assert_eq!(listed(on, &of_status).await, those(&all, |at| at % 3 == 2));
    of_status.status.push(SessionStatus::Active);
    assert_eq!(listed(on, &of_status).await, those(&all, |at| at % 3 != 1));
    let mut of_parent = query();
    of_parent.parent = ParentFilter::Roots;
    assert_eq!(listed(on, &of_parent).await, those(&all, |at| at < 8));
    of_parent.parent = ParentFilter::Of(all[1].clone());
    assert_eq!(
        listed(on, &of_parent).await,
        those(&all, |at| at >= 8 && at % 2 == 1)
    );
    let mut of_tags = query();
    of_tags.tags = vec!["third".to_owned()];
    assert_eq!(listed(on, &of_tags).await, those(&all, |at| at % 3 == 0));
    of_tags.tags.push("even".to_owned());
    assert_eq!(listed(on, &of_tags).await, those(&all, |at| at % 6 == 0));
    let mut of_metadata = query();
    of_metadata
        .metadata
        .insert("size".to_owned(), "small".to_owned());
    assert_eq!(listed(on, &of_metadata).await, those(&all, |at| at < 6));
    of_metadata
        .metadata
        .insert("parity".to_owned(), "1".to_owned());
    assert_eq!(
        listed(on, &of_metadata).await,
        those(&all, |at| at < 6 && at % 2 == 1)
    );
    of_metadata
        .metadata
        .insert("never".to_owned(), String::new());
    assert!(listed(on, &of_metadata).await.is_empty());
    let mut since = query();
    since.from = at(4);
    assert_eq!(listed(on, &since).await, those(&all, |at| at >= 4));
    let mut until = query();
    until.to = at(4);
    assert_eq!(listed(on, &until).await, those(&all, |at| at <= 4));
}

/// Letters that no compression makes shorter than half.
fn noise(bytes: usize, mut seed: u64) -> String {
    let letter = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        char::from(b"0123456789abcdefghijklmnopqrstuv"[(seed >> 40) as usize % 32])
    };
    std::iter::repeat_with(letter).take(bytes).collect()
}

/// A metadata value may be larger than what a database takes into an index.
///
/// proves: SES-13
pub async fn sessions_are_found_by_a_large_metadata_value(on: &Subject) {
    let value = noise(20 * 1024, 1);
    // As long, and different at the end alone.
    let other = format!("{}!", &value[..value.len() - 1]);
    for (name, kept) in [("s", &value), ("t", &other)] {
        let mut new = NewSession::of("writer");
        new.metadata = BTreeMap::from([("note".to_owned(), kept.clone())]);
        on.sessions()
            .create_session(&session(name), new)
            .await
            .unwrap();
    }
    for (name, kept) in [("s", &value), ("t", &other)] {
        let mut query = query();
        query.metadata = BTreeMap::from([("note".to_owned(), kept.clone())]);
        assert_eq!(listed(on, &query).await, [session(name)]);
        let found = on.sessions().load_state(&session(name)).await.unwrap();
        assert_eq!(found.unwrap().metadata["note"], *kept);
        query.metadata = BTreeMap::from([("note".to_owned(), kept[1..].to_owned())]);
        assert!(listed(on, &query).await.is_empty());
    }
}

/// Combined filters select the sessions that match all of them.
///
/// proves: SES-13
pub async fn filters_of_a_list_combine(on: &Subject) {
    let begin = on.now();
    let all = crowd(on).await;
    let mut query = query();
    query.user_id = Some(user("u-0"));
    query.agent_type = Some("writer".to_owned());
    query.status = vec![SessionStatus::Active, SessionStatus::Paused];
    query.parent = ParentFilter::Roots;
    query.tags = vec!["even".to_owned()];
    query.metadata = BTreeMap::from([("parity".to_owned(), "0".to_owned())]);
    query.from = Some(begin);
    query.to = Some(begin.saturating_add(Duration::from_secs(6)));
    assert_eq!(
        listed(on, &query).await,
        those(&all, |at| at == 0 || at == 6)
    );
    query.metadata.insert("size".to_owned(), "large".to_owned());
    assert_eq!(listed(on, &query).await, those(&all, |at| at == 6));
    query.status = vec![SessionStatus::Paused];
    assert!(listed(on, &query).await.is_empty());
}

/// A list shows the current fields of sessions.
///
/// proves: SES-13
pub async fn a_list_follows_changes(on: &Subject) {
    let id = created(on, "s").await;
    let mut query = query();
    query.user_id = Some(user("u"));
    query.tags = vec!["t".to_owned()];
    query.metadata = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    assert!(listed(on, &query).await.is_empty());
    for field in [
        Field::User(Some(user("u"))),
        Field::Tags(vec!["t".to_owned(), "o".to_owned()]),
        Field::Metadata([("k".to_owned(), Some("v".to_owned()))].into()),
    ] {
        changed(on, &id, Change::Set(field)).await;
    }
    assert_eq!(
        listed(on.elsewhere(), &query).await,
        std::slice::from_ref(&id)
    );
    changed(on, &id, Change::Set(Field::Status(SessionStatus::Paused))).await;
    let found = on.store.list(&query).await.unwrap().items.remove(0);
    assert_eq!((found.status, found.version), (SessionStatus::Paused, 5));
    assert_eq!((found.user_id, found.tags.len()), (Some(user("u")), 2));
    changed(on, &id, Change::Set(Field::Tags(vec!["o".to_owned()]))).await;
    assert!(listed(on, &query).await.is_empty());
}

/// The pages together have each session once, also when many were created at one instant.
///
/// proves: SES-13
pub async fn pages_of_a_list_are_stable_and_capped(on: &Subject) {
    const MANY: usize = 230;
    for index in 0..MANY {
        created(on, &format!("s-{}", (index * 97) % MANY)).await;
    }
    let all = SessionQuery {
        page: Page::ALL,
        ..SessionQuery::default()
    };
    let found = on.store.list(&all).await.unwrap();
    assert_eq!(
        (found.items.len(), found.total, found.has_more),
        (Page::MAX, MANY, true)
    );
    let first = on.store.list(&SessionQuery::default()).await.unwrap();
    assert_eq!(
        (first.items.len(), first.total),
        (50, MANY),
        "50 when nobody says"
    );
    for size in [1, 64, 200] {
        let mut seen = Vec::new();
        let mut page = Page::first(size);
        loop {
            let query = SessionQuery {
                page,
                ..SessionQuery::default()
            };
            let part = on.store.list(&query).await.unwrap();
            assert_eq!(part.total, MANY);
            seen.extend(part.items.into_iter().map(|one| one.session_id));
            if !part.has_more {
                break;
            }
            page.offset += size;
        }
        assert_eq!(
            seen[..Page::MAX],
            found
                .items
                .iter()
                .map(|one| one.session_id.clone())
                .collect::<Vec<_>>()
        );
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), MANY, "pages of {size} show each session once");
    }
    let beyond = SessionQuery {
        page: Page::new(MANY, 10),
        ..SessionQuery::default()
    };
    let beyond = on.store.list(&beyond).await.unwrap();
    assert_eq!(
        (beyond.items.len(), beyond.total, beyond.has_more),
        (0, MANY, false)
    );
}
