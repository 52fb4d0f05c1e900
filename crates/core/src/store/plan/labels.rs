//! The limits on tags and metadata of a session.

use crate::session::SessionState;

/// The maximum number of tags of a session.
pub const MAX_TAGS: usize = 64;
/// The maximum number of metadata keys of a session.
pub const MAX_METADATA_KEYS: usize = 256;
/// The maximum size of a tag and of a metadata key, in bytes.
pub const MAX_LABEL_BYTES: usize = 256;
/// The maximum size of a session's metadata, keys and values together, in bytes.
pub const MAX_METADATA_BYTES: usize = 64 * 1024;

/// Returns why the labels of a session exceed the limits, and what to do; `None` if they do not.
/// Each label is an indexed row.
pub(super) fn limit_violation(session: &SessionState) -> Option<String> {
    let (tags, metadata) = (&session.tags, &session.metadata);
    if tags.len() > MAX_TAGS {
        let count = tags.len();
        return Some(format!("it has {count} tags; give it at most {MAX_TAGS}"));
    }
    if metadata.len() > MAX_METADATA_KEYS {
        let count = metadata.len();
        return Some(format!(
            "its metadata has {count} keys; give it at most {MAX_METADATA_KEYS}"
        ));
    }
    let mut names = tags.iter().chain(metadata.keys());
    if let Some(long) = names.find(|name| name.len() > MAX_LABEL_BYTES) {
        let bytes = long.len();
        return Some(format!(
            "a tag or a key of its metadata has {bytes} bytes; use at most {MAX_LABEL_BYTES}"
        ));
    }
    let sizes = metadata.iter().map(|(key, value)| key.len() + value.len());
    let bytes: usize = sizes.sum();
    (bytes > MAX_METADATA_BYTES).then(|| {
        format!(
            "its metadata has {bytes} bytes; at most {MAX_METADATA_BYTES} are kept, so store it \
             elsewhere and keep a reference"
        )
    })
}
