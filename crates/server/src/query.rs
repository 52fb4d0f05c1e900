//! What stands behind the question mark.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use helix_agents_core::store::Page;
use helix_agents_core::{IdError, SessionId};

use crate::ApiError;
use crate::builder::App;

/// The pairs of a query, in their order. What no route knows is ignored.
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
    /// The last value of a name: like every parameter that is given twice. Empty is as good as none.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Every pair.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// All values of a name, whether it is repeated or its values have commas between them.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        let values = named.flat_map(|(_, value)| value.split(','));
        values.map(str::trim).filter(|value| !value.is_empty())
    }

    /// An id of this name.
    pub(crate) fn id<Id>(&self, name: &str) -> Result<Option<Id>, ApiError>
    where
        Id: for<'a> TryFrom<&'a str, Error = IdError>,
    {
        Ok(self.get(name).map(Id::try_from).transpose()?)
    }

    /// The session that the query names.
    pub(crate) fn session(&self) -> Result<SessionId, ApiError> {
        let missing = || ApiError::invalid("no session is named; add `?sessionId=ID`");
        self.id("sessionId")?.ok_or_else(missing)
    }

    /// A whole number of this name.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let bad = |text| ApiError::invalid(format!("{name} is {text:?}; give a whole number"));
        let given = self.get(name);
        given
            .map(|text| text.parse().map_err(|_| bad(text)))
            .transpose()
    }

    /// Which part of a list is asked for.
    pub(crate) fn page(&self, usual: usize, most: usize) -> Result<Page, ApiError> {
        let number = |name| -> Result<Option<usize>, ApiError> {
            let given = self.number(name)?;
            Ok(given.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
        };
        let limit = number("limit")?.unwrap_or(usual).min(most);
        // What no list is long enough for is as good as its end, and fits every store's numbers.
        let offset = number("offset")?.unwrap_or(0).min(MOST_OFFSET);
        Ok(Page::new(offset, limit))
    }
}

/// About how large a list in an answer becomes, unless its first item alone is larger. Whoever wants more
/// asks for what follows.
pub(crate) const ANSWER_BYTES: usize = 1024 * 1024;
/// How many parameters a query may have.
const MOST_PAIRS: usize = 256;
/// Stores keep offsets in numbers of 32 bits and more.
const MOST_OFFSET: usize = 0x7fff_ffff;
