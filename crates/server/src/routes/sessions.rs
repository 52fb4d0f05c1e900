//! The list of sessions.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use helix_agents_core::session::SessionStatus;
use helix_agents_core::store::{ParentFilter, SessionQuery};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{SessionId, UserId};
use serde_json::Value;

use crate::builder::App;
use crate::caller::Caller;
use crate::query::{ANSWER_BYTES, Pairs};
use crate::view::{ListView, SessionView};
use crate::{ApiError, Principal};

/// The default and the maximum number of sessions per page.
const USUAL: usize = 50;
const MOST: usize = 200;
/// The maximum number of statuses, tags and metadata pairs in a query.
const MOST_FILTERS: usize = 64;

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    query: Pairs,
) -> Result<Json<ListView<SessionView>>, ApiError> {
    let wanted = read(&query)?;
    caller.may_do(&app).await?;
    let user_id = match OwnerFilter::for_caller(&caller.principal, wanted.user_id.clone()) {
        OwnerFilter::All => None,
        OwnerFilter::Of(user) => Some(user),
        OwnerFilter::None => return Ok(Json(ListView::empty())),
    };
    let wanted = SessionQuery { user_id, ..wanted };
    let page = app.sessions().list_sessions(&wanted).await?;
    Ok(Json(ListView::of(page, SessionView::from)))
}

/// The owners whose data is listed.
pub(crate) enum OwnerFilter {
    /// All owners, for administrators.
    All,
    /// Sessions of this owner only.
    Of(UserId),
    /// No owner: the list is empty.
    None,
}

impl OwnerFilter {
    /// Returns the filter for a caller. Callers other than administrators see only their own data.
    pub(crate) fn for_caller(principal: &Principal, asked: Option<UserId>) -> Self {
        match (&principal.user, asked) {
            (_, None) if principal.admin => Self::All,
            (_, Some(asked)) if principal.admin => Self::Of(asked),
            (Some(user), None) => Self::Of(user.clone()),
            (Some(user), Some(asked)) if asked == *user => Self::Of(asked),
            _ => Self::None,
        }
    }
}

fn read(query: &Pairs) -> Result<SessionQuery, ApiError> {
    let status = |text: &str| {
        let known = serde_json::from_value::<SessionStatus>(Value::from(text));
        known.map_err(|error| ApiError::invalid(format!("status: {error}")))
    };
    let instant = |name| -> Result<Option<Timestamp>, ApiError> {
        Ok(query.number(name)?.map(Timestamp::from_millis))
    };
    let wanted = SessionQuery {
        user_id: query.id("userId")?,
        agent_type: query.get("agentType").map(str::to_owned),
        status: query.all("status").map(status).collect::<Result<_, _>>()?,
        parent: match query.iter().rfind(|(name, _)| *name == "parentSessionId") {
            None => ParentFilter::Any,
            // Sessions without a parent.
            Some((_, "" | "null")) => ParentFilter::Roots,
            Some((_, parent)) => ParentFilter::Of(SessionId::try_from(parent)?),
        },
        tags: query.all("tags").map(str::to_owned).collect(),
        metadata: metadata(query)?,
        from: instant("from")?,
        to: instant("to")?,
        page: query.page(USUAL, MOST)?.within(ANSWER_BYTES),
    };
    let filters = wanted.status.len() + wanted.tags.len() + wanted.metadata.len();
    if filters > MOST_FILTERS {
        return Err(ApiError::invalid(format!(
            "the query has {filters} filters; send at most {MOST_FILTERS}"
        )));
    }
    Ok(wanted)
}

/// Returns the metadata pairs that sessions must have: `metadata={"key":"value"}`,
/// `metadata.key=value` or `metadata[key]=value`.
fn metadata(query: &Pairs) -> Result<BTreeMap<String, String>, ApiError> {
    let mut wanted = BTreeMap::new();
    for (name, value) in query.iter() {
        if name == "metadata" && !value.is_empty() {
            let pairs: BTreeMap<String, String> = serde_json::from_str(value).map_err(|error| {
                ApiError::invalid(format!("metadata is not an object of texts: {error}"))
            })?;
            wanted.extend(pairs);
        } else if let Some(key) = name.strip_prefix("metadata.").or_else(|| bracketed(name)) {
            wanted.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(wanted)
}

fn bracketed(name: &str) -> Option<&str> {
    name.strip_prefix("metadata[")?.strip_suffix(']')
}
