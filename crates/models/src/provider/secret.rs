//! Keys, which are never shown.

use std::fmt;

/// A key that no log, error or debug print shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(key: impl Into<String>) -> Self {
        Self(key.into().trim().to_owned())
    }

    /// Returns the key, to be sent to its provider.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_trimmed_and_not_printed() {
        let key = Secret::new("sk-123\n");
        assert_eq!(key.reveal(), "sk-123");
        assert!(!format!("{key:?}").contains("123"));
    }
}
