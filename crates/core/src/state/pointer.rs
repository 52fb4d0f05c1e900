//! The path of a value in a state.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::StateError;

/// A JSON pointer (RFC 6901): the keys and indices that lead from the root to a value.
///
/// Segments are passed and returned unescaped; the text form, which is also the serialized one, has
/// `~0` for `~` and `~1` for `/`. A segment has exactly one text form, so pointers are compared and
/// hashed as text. Cloning shares the text.
///
/// ```
/// use helix_agents_core::state::Pointer;
///
/// let pointer = Pointer::root().join("paths").join("a/b");
/// assert_eq!(pointer.to_string(), "/paths/a~1b");
/// assert_eq!(pointer, "/paths/a~1b".parse()?);
/// assert_eq!(pointer.last().as_deref(), Some("a/b"));
/// # Ok::<(), helix_agents_core::state::StateError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer(Arc<str>);

impl Pointer {
    /// Returns the pointer to the whole state: no segments, the empty text.
    #[must_use]
    pub fn root() -> Self {
        Self(Arc::from(""))
    }

    /// Creates a pointer from unescaped segments.
    #[doc(hidden)]
    pub fn from_segments(segments: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut text = String::new();
        for segment in segments {
            push_escaped(&mut text, segment.as_ref());
        }
        Self(text.into())
    }

    /// Creates a pointer from text that is known to be valid.
    pub(super) fn from_escaped(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// Returns the escaped text form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this points to the whole state.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of segments.
    #[must_use]
    #[doc(hidden)]
    pub fn depth(&self) -> usize {
        self.0.matches('/').count()
    }

    /// Iterates over the unescaped segments, from the root down.
    pub fn segments(&self) -> impl Iterator<Item = Cow<'_, str>> {
        // The text before the first slash is always empty and is not a segment.
        self.0.split('/').skip(1).map(unescape)
    }

    /// Returns the last segment, unescaped; the root has none.
    #[must_use]
    pub fn last(&self) -> Option<Cow<'_, str>> {
        self.0.rsplit_once('/').map(|(_, last)| unescape(last))
    }

    /// Returns the pointer without its last segment; the root has none.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0
            .rsplit_once('/')
            .map(|(parent, _)| Self::from_escaped(parent))
    }

    /// Returns the pointer with one more segment, given unescaped.
    #[must_use]
    pub fn join(&self, segment: &str) -> Self {
        let mut text = String::with_capacity(self.0.len() + segment.len() + 1);
        text.push_str(&self.0);
        push_escaped(&mut text, segment);
        Self(text.into())
    }

    /// Appends one segment, given unescaped.
    pub fn push(&mut self, segment: &str) {
        *self = self.join(segment);
    }

    /// Whether `other` is this pointer or below it.
    #[must_use]
    #[doc(hidden)]
    pub fn is_prefix_of(&self, other: &Self) -> bool {
        other
            .0
            .strip_prefix(&*self.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the pointer of the first `depth` segments.
    pub(super) fn prefix(&self, depth: usize) -> Self {
        match self.0.match_indices('/').nth(depth) {
            Some((end, _)) => Self::from_escaped(self.0.get(..end).unwrap_or_default()),
            None => self.clone(),
        }
    }
}

/// Appends a slash and the escaped segment to a pointer's text.
pub(super) fn push_escaped(text: &mut String, segment: &str) {
    text.push('/');
    for c in segment.chars() {
        match c {
            '~' => text.push_str("~0"),
            '/' => text.push_str("~1"),
            c => text.push(c),
        }
    }
}

fn unescape(segment: &str) -> Cow<'_, str> {
    if segment.contains('~') {
        // This order: `~01` stands for `~1`, not for `/`.
        Cow::Owned(segment.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(segment)
    }
}

/// Reads a segment as an array index: decimal digits without leading zeros.
pub(super) fn array_index(segment: &str) -> Option<usize> {
    let canonical = segment == "0"
        || (!segment.starts_with('0') && segment.bytes().all(|b| b.is_ascii_digit()));
    if canonical {
        segment.parse().ok()
    } else {
        None
    }
}

impl FromStr for Pointer {
    type Err = StateError;

    fn from_str(text: &str) -> Result<Self, StateError> {
        let invalid = |reason| StateError::InvalidPointer {
            pointer: text.to_owned(),
            reason,
        };
        if !text.is_empty() && !text.starts_with('/') {
            return Err(invalid("it is not empty and does not start with `/`"));
        }
        if text
            .split('~')
            .skip(1)
            .any(|rest| !rest.starts_with(['0', '1']))
        {
            return Err(invalid("a `~` is followed by neither `0` nor `1`"));
        }
        Ok(Self::from_escaped(text))
    }
}

impl TryFrom<&str> for Pointer {
    type Error = StateError;

    fn try_from(text: &str) -> Result<Self, StateError> {
        text.parse()
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for Pointer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pointer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// A path argument: a [`Pointer`], or its text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no path into a state; pass a `Pointer` or text like \"/items/0\""
)]
pub trait IntoPointer {
    /// Parses the path if it is text.
    ///
    /// # Errors
    ///
    /// [`StateError::InvalidPointer`] if the text is not a JSON pointer.
    fn into_pointer(self) -> Result<Pointer, StateError>;
}

impl IntoPointer for Pointer {
    fn into_pointer(self) -> Result<Pointer, StateError> {
        Ok(self)
    }
}

impl IntoPointer for &Pointer {
    fn into_pointer(self) -> Result<Pointer, StateError> {
        Ok(self.clone())
    }
}

impl IntoPointer for &str {
    fn into_pointer(self) -> Result<Pointer, StateError> {
        self.parse()
    }
}

impl IntoPointer for &String {
    fn into_pointer(self) -> Result<Pointer, StateError> {
        self.parse()
    }
}

impl IntoPointer for String {
    fn into_pointer(self) -> Result<Pointer, StateError> {
        self.parse()
    }
}
