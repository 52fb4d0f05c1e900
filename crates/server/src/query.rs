//! The query parameters of a request.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use helix_agents_core::store::Page;
use helix_agents_core::{IdError, SessionId};

use crate::ApiError;
use crate::builder::App;

/// The pairs of a query, in order. Unknown names are ignored.
#[derive(Debug)]
pub(crate) struct Pairs(Vec<(String, String)>);

impl FromRequestParts<App> for Pairs {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let pairs = Query::try_from_uri(&parts.uri);
        let Query::<Vec<(String, String)>>(pairs) = pairs.map_err(|error| {
            ApiError::invalid(format!(
                "the query cannot be read: {error}; check its encoding"
            ))
        })?;
        if pairs.len() > MOST_PAIRS {
            let count = pairs.len();
            return Err(ApiError::invalid(format!(
                "the query has {count} parameters; send at most {MOST_PAIRS}"
            )));
        }
        Ok(Self(pairs))
    }
}

impl Pairs {
    /// Returns the last value of a name. An empty value counts as missing.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Returns every pair in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns all values of a name, whether it is repeated or its values are separated by commas.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        let values = named.flat_map(|(_, value)| value.split(','));
        values.map(str::trim).filter(|value| !value.is_empty())
    }

    /// Returns an id by its parameter name.
    pub(crate) fn id<Id>(&self, name: &str) -> Result<Option<Id>, ApiError>
    where
        Id: for<'a> TryFrom<&'a str, Error = IdError>,
    {
        Ok(self.get(name).map(Id::try_from).transpose()?)
    }

    /// Returns the session that the query names.
    pub(crate) fn session(&self) -> Result<SessionId, ApiError> {
        let missing = || ApiError::invalid("no session is named; add `?sessionId=ID`");
        self.id("sessionId")?.ok_or_else(missing)
    }

    /// Returns a whole number by its parameter name.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let bad = |text| ApiError::invalid(format!("{name} is {text:?}; write a whole number"));
        let given = self.get(name);
        given
            .map(|text| text.parse().map_err(|_| bad(text)))
            .transpose()
    }

    /// Returns the page of a list that is asked for.
    pub(crate) fn page(&self, usual: usize, most: usize) -> Result<Page, ApiError> {
        let number = |name| -> Result<Option<usize>, ApiError> {
            let given = self.number(name)?;
            Ok(given.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
        };
        let limit = number("limit")?.unwrap_or(usual).min(most);
        // An offset beyond any list gives its end, and fits the numbers of every store.
        let offset = number("offset")?.unwrap_or(0).min(MOST_OFFSET);
        Ok(Page::new(offset, limit))
    }
}

/// The approximate size of a list in a response, unless its first item alone is larger. The rest is
/// on the next page.
pub(crate) const ANSWER_BYTES: usize = 1024 * 1024;
/// The maximum number of parameters in a query.
const MOST_PAIRS: usize = 256;
/// The maximum offset, because stores keep offsets in numbers of 32 bits and more.
const MOST_OFFSET: usize = 0x7fff_ffff;
