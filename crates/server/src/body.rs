//! JSON request bodies with a size limit and a time limit.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use crate::ApiError;
use crate::builder::App;

/// An extractor for a JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (parts, mut body) = request.into_parts();
        let read = read(&parts.headers, &mut body, app).await;
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(refused) => {
                drain(&parts.headers, body).await;
                return Err(refused);
            }
        };
        let parsed = serde_json::from_slice(&bytes);
        let parsed = parsed.map_err(|error| {
            ApiError::invalid(format!("the body does not fit this route: {error}"))
        })?;
        Ok(Self(parsed))
    }
}

/// Reads a body within the limits.
async fn read(headers: &HeaderMap, body: &mut Body, app: &App) -> Result<Bytes, ApiError> {
    let limit = app.max_body_bytes;
    if !is_json(headers) {
        let detail = "the body is not JSON; send it with `Content-Type: application/json`";
        return Err(ApiError::invalid(detail));
    }
    if announced(headers).is_some_and(|bytes| bytes > limit) {
        return Err(ApiError::too_large(limit));
    }
    let mut bytes = Vec::new();
    let all = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                ApiError::invalid(format!("the body was incomplete: {error}; send it again"))
            })?;
            let data = frame.into_data().unwrap_or_default();
            if bytes.len() + data.len() > limit {
                return Err(ApiError::too_large(limit));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    let read = tokio::time::timeout(app.body_timeout, all).await;
    let late = |_| ApiError::invalid("the body did not arrive in time; send it again");
    read.map_err(late)??;
    Ok(Bytes::from(bytes))
}

/// The maximum number of bytes read from the body of a refused request, and the maximum time.
const UNWANTED_BYTES: usize = 16 * 1024 * 1024;
const UNWANTED_TIME: Duration = Duration::from_secs(3);

/// Discards the rest of the body of a refused request. Most clients read no response before they
/// have sent all of it, and closing the connection earlier would discard the response.
pub(crate) async fn drain(headers: &HeaderMap, mut body: Body) {
    if headers.contains_key(EXPECT) {
        // A client that sends `Expect: 100-continue` has not sent the body yet.
        return;
    }
    let mut left = UNWANTED_BYTES;
    let all = async {
        while let Some(Ok(frame)) = body.frame().await {
            let data = frame.into_data().unwrap_or_default();
            match left.checked_sub(data.len()) {
                Some(less) => left = less,
                None => return,
            }
        }
    };
    // A client that sends too slowly loses the response.
    let _ = tokio::time::timeout(UNWANTED_TIME, all).await;
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
