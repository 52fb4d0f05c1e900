//! Errors of `genai`, as kinds that are common to all. Their own texts hold bodies of requests and responses, so
//! none of them is kept as it is.

use ::genai::Error;
use helix_agents_core::model::{ModelError, ModelErrorKind};

use crate::provider::endpoint::{Client, transport_error};
use crate::provider::failure::{Confidential, ProviderFailure, of_event, of_response};

/// Returns the error of an attempt with an adapter.
pub(super) fn of(
    error: Error,
    adapter: &str,
    client: &Client,
    confidential: &Confidential<'_>,
) -> ModelError {
    let transport = |detail: String| ModelError::new(ModelErrorKind::Transport, detail);
    match error {
        Error::HttpError {
            status,
            body,
            headers,
            ..
        } => of_response(
            adapter,
            status.as_u16(),
            &headers,
            body.as_bytes(),
            confidential,
        ),
        Error::ChatResponse { body, .. } => {
            of_event(adapter, &ProviderFailure::of_error(&body), confidential)
        }
        Error::WebStream { error, .. } => match error.downcast::<Error>() {
            Ok(error) => of(*error, adapter, client, confidential),
            Err(error) => match error.downcast::<reqwest::Error>() {
                Ok(error) => transport_error(adapter, client, *error),
                Err(_) => transport(format!("the stream of {adapter} cannot be read")),
            },
        },
        Error::StreamParse { .. } | Error::JsonValueExt(_) | Error::SerdeJson(_) => transport(
            format!("an event of the stream of {adapter} cannot be read"),
        ),
        Error::RequiresApiKey { .. }
        | Error::NoAuthResolver { .. }
        | Error::NoAuthData { .. }
        | Error::Resolver { .. } => {
            let detail = format!("genai found no key for {adapter}; set one");
            ModelError::new(ModelErrorKind::Auth, detail)
        }
        other => {
            let said = confidential.removed_from(&other.to_string());
            let detail = format!("genai refused the request to {adapter}: {said}");
            ModelError::new(ModelErrorKind::Invalid, detail)
        }
    }
}
