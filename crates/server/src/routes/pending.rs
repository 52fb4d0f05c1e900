//! Everything that waits for somebody.

use axum::Json;
use axum::extract::State;
use helix_agents_core::store::PendingQuery;
use serde::Serialize;
use utoipa::ToSchema;

use super::sessions::Whose;
use crate::ApiError;
use crate::builder::App;
use crate::caller::Caller;
use crate::query::{ANSWER_BYTES, Pairs};
use crate::view::PendingView;

/// How many calls are listed unless fewer are asked for.
const MOST: usize = 200;

/// What waits, and how much of it there is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PendingListView {
    pending: Vec<PendingView>,
    total: usize,
}

pub(crate) async fn pending(
    State(app): State<App>,
    caller: Caller,
    query: Pairs,
) -> Result<Json<PendingListView>, ApiError> {
    let asked = query.id("userId")?;
    let page = query.page(MOST, MOST)?.within(ANSWER_BYTES);
    caller.may_do(&app).await?;
    let user_id = match Whose::for_caller(&caller.principal, asked) {
        Whose::All => None,
        Whose::Of(user) => Some(user),
        Whose::Nobody => {
            let pending = Vec::new();
            return Ok(Json(PendingListView { pending, total: 0 }));
        }
    };
    let wanted = PendingQuery {
        user_id,
        root: None,
        page,
    };
    let found = app.store().pending(&wanted).await?;
    Ok(Json(PendingListView {
        total: found.total,
        pending: found.items.into_iter().map(PendingView::from).collect(),
    }))
}
