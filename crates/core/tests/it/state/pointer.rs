//! JSON pointers.

use helix_agents_core::state::{Pointer, StateError};
use proptest::prelude::*;

use super::model;

/// Pointer segments are escaped, as in the examples of RFC 6901.
///
/// proves: STT-02
#[test]
fn segments_are_escaped_and_unescaped() {
    for (text, segments) in [
        ("", &[][..]),
        ("/foo", &["foo"]),
        ("/foo/0", &["foo", "0"]),
        ("/", &[""]),
        ("//", &["", ""]),
        ("/a~1b", &["a/b"]),
        ("/m~0n", &["m~n"]),
        ("/~01", &["~1"]),
        ("/~10", &["/0"]),
        ("/c%d/e^f/ /\"", &["c%d", "e^f", " ", "\""]),
    ] {
        let pointer: Pointer = text.parse().unwrap();
        assert_eq!(pointer.segments().collect::<Vec<_>>(), segments, "{text}");
        assert_eq!(pointer.to_string(), text);
        assert_eq!(pointer.depth(), segments.len(), "{text}");
        assert_eq!(Pointer::from_segments(segments), pointer, "{text}");
        assert_eq!(serde_json::to_value(&pointer).unwrap(), text);
        assert_eq!(
            serde_json::from_value::<Pointer>(text.into()).unwrap(),
            pointer
        );
    }
}

/// Text that is not a pointer is refused, with what to write instead.
///
/// proves: STT-10
#[test]
fn text_that_is_not_a_pointer_is_refused() {
    for (text, message) in [
        (
            "a",
            "`a` is not a JSON pointer: it is not empty and does not start with `/`; write it like `/items/0`, with `~0` for `~` and `~1` for `/` inside a key",
        ),
        (
            "/a~",
            "`/a~` is not a JSON pointer: a `~` is followed by neither `0` nor `1`; write it like `/items/0`, with `~0` for `~` and `~1` for `/` inside a key",
        ),
        (
            "/~2",
            "`/~2` is not a JSON pointer: a `~` is followed by neither `0` nor `1`; write it like `/items/0`, with `~0` for `~` and `~1` for `/` inside a key",
        ),
    ] {
        let error = Pointer::try_from(text).unwrap_err();
        assert!(matches!(error, StateError::InvalidPointer { .. }));
        assert_eq!(error.to_string(), message);
        serde_json::from_value::<Pointer>(text.into()).unwrap_err();
    }
}

proptest! {
    /// A pointer equals its segments, in either form.
    ///
    /// proves: STT-02
    #[test]
    fn a_pointer_is_its_segments(
        a in proptest::collection::vec(model::key(), 0..4),
        b in proptest::collection::vec(model::key(), 0..4),
    ) {
        let (p, q) = (Pointer::from_segments(&a), Pointer::from_segments(&b));
        prop_assert_eq!(p.segments().collect::<Vec<_>>(), &a[..]);
        prop_assert_eq!(&p.as_str().parse::<Pointer>().unwrap(), &p);
        prop_assert_eq!(p == q, a == b);
        prop_assert_eq!(p.is_prefix_of(&q), b.starts_with(&a));
        prop_assert_eq!(p.parent(), a.split_last().map(|(_, rest)| Pointer::from_segments(rest)));
        prop_assert_eq!(p.last(), a.last().map(Into::into));
        let longer = p.join("x/~");
        prop_assert_eq!(longer.last(), Some("x/~".into()));
        prop_assert_eq!(longer.parent(), Some(p.clone()));
        let mut pushed = p;
        pushed.push("x/~");
        prop_assert_eq!(pushed, longer);
    }
}
