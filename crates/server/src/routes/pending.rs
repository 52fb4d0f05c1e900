//! The list of pending calls.

use axum::Json;
use axum::extract::State;
use helix_agents_core::store::PendingQuery;
use serde::Serialize;
use utoipa::ToSchema;

use super::sessions::OwnerFilter;
use crate::ApiError;
use crate::builder::App;
use crate::caller::Caller;
use crate::query::{ANSWER_BYTES, Pairs};
use crate::view::PendingView;

/// The default and maximum number of calls per page.
const MOST: usize = 200;

/// A page of pending calls, with their total number.
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
    let user_id = match OwnerFilter::for_caller(&caller.principal, asked) {
        OwnerFilter::All => None,
        OwnerFilter::Of(user) => Some(user),
        OwnerFilter::None => {
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
