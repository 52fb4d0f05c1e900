//! Call ids as a provider takes them.

use std::borrow::Cow;
use std::fmt::Write;

use helix_agents_core::CallId;
use sha2::{Digest, Sha256};

/// Returns an id that every provider takes: at most 40 letters, digits, `_` and `-`. An id that is not like
/// that, of another provider for example, becomes one that is always the same for it.
pub(crate) fn wire_call_id(id: &CallId) -> Cow<'_, str> {
    let id = id.as_str();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if id.len() <= 40 && id.bytes().all(is_plain) {
        return Cow::Borrowed(id);
    }
    let mut mapped = "call_".to_owned();
    for byte in Sha256::digest(id.as_bytes()).iter().take(16) {
        // Writing to a string cannot fail.
        let _ = write!(mapped, "{byte:02x}");
    }
    Cow::Owned(mapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_ids_become_plain_ones_that_stay_the_same() {
        let id = |text: &str| CallId::new(text).unwrap();
        assert_eq!(wire_call_id(&id("toolu_01A-b")), "toolu_01A-b");
        let long = id(&"x".repeat(41));
        assert_eq!(wire_call_id(&long).len(), 37);
        assert_eq!(wire_call_id(&long), wire_call_id(&long));
        // The same in every process, for ever: requests begin with the bytes of those before them.
        assert_eq!(
            wire_call_id(&id("a.b")),
            "call_2e7336dc8eba87ef472df568c35482ab"
        );
        assert_ne!(wire_call_id(&id("a.b")), wire_call_id(&id("a:b")));
    }
}
