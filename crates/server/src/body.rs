//! JSON bodies, as large as they may be.

use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::ApiError;
use crate::builder::App;

/// A JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let limit = app.max_body_bytes;
        if !is_json(request.headers()) {
            let detail = "the body is not JSON; send it with `Content-Type: application/json`";
            return Err(ApiError::invalid(detail));
        }
        if announced(request.headers()).is_some_and(|bytes| bytes > limit) {
            return Err(ApiError::too_large(limit));
        }
        let read = Limited::new(request.into_body(), limit).collect();
        let read = tokio::time::timeout(app.body_timeout, read).await;
        let bytes = match read {
            Ok(Ok(collected)) => collected.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(ApiError::too_large(limit));
            }
            Ok(Err(error)) => {
                let detail = format!("the body broke off: {error}; send it again");
                return Err(ApiError::invalid(detail));
            }
            Err(_) => {
                let detail = "the body did not arrive in time; send it again";
                return Err(ApiError::invalid(detail));
            }
        };
        let parsed = serde_json::from_slice(&bytes);
        let parsed = parsed.map_err(|error| {
            ApiError::invalid(format!("the body is not what this route takes: {error}"))
        })?;
        Ok(Self(parsed))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = given.and_then(|text| text.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
