//! The headers that were used last, so that they need not be parsed again.

use std::collections::HashMap;

use helix_agents_core::store::Header;

use crate::key::Owner;

/// So many are remembered at most.
const CAPACITY: usize = 256;

/// Headers with the texts they are made of. A header is used only when the file has that very text,
/// so it does not matter who wrote it, or whether its transaction was rolled back.
#[derive(Debug, Default)]
pub(crate) struct HeaderCache {
    kept: HashMap<Owner, (String, Header)>,
}

impl HeaderCache {
    /// The header of a session whose stored form is this text.
    pub(crate) fn get(&self, session: Owner, text: &str) -> Option<Header> {
        let (known, header) = self.kept.get(&session)?;
        (known == text).then(|| header.clone())
    }

    /// Remembers a header.
    pub(crate) fn put(&mut self, session: Owner, text: String, header: Header) {
        if self.kept.len() >= CAPACITY && !self.kept.contains_key(&session) {
            // Those who are busy are soon back.
            self.kept.clear();
        }
        self.kept.insert(session, (text, header));
    }
}
