use helix_agents_core::id::{IdError, IdSourceExt};
use helix_agents_core::{CallId, Coded, ErrorCode, SessionId};
use helix_agents_testkit::SequentialIds;

#[test]
fn valid_ids_are_accepted_and_round_trip() {
    let longest = "x".repeat(256);
    for text in ["a", "A-z_0.9:", "session-1", longest.as_str()] {
        let id = SessionId::new(text).unwrap();
        assert_eq!(id.as_str(), text);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("{text:?}"));
        assert_eq!(serde_json::from_str::<SessionId>(&json).unwrap(), id);
    }
}

/// An invalid id is a typed error that says what to do.
#[test]
fn invalid_ids_are_refused_with_a_remedy() {
    let cases = [
        (
            String::new(),
            IdError::Empty { kind: "session id" },
            "a session id is empty; give it 1 to 256 letters, digits or `-_.:`",
        ),
        (
            "x".repeat(257),
            IdError::TooLong {
                kind: "session id",
                chars: 257,
            },
            "a session id has 257 characters; shorten it to at most 256",
        ),
        (
            "../etc".to_owned(),
            IdError::BadCharacter {
                kind: "session id",
                found: '/',
                at: 2,
            },
            "a session id contains '/' at character 2; use only letters, digits and `-_.:`",
        ),
        (
            "naïve".to_owned(),
            IdError::BadCharacter {
                kind: "session id",
                found: 'ï',
                at: 2,
            },
            "a session id contains 'ï' at character 2; use only letters, digits and `-_.:`",
        ),
        (
            "a\nb".to_owned(),
            IdError::BadCharacter {
                kind: "session id",
                found: '\n',
                at: 1,
            },
            "a session id contains '\\n' at character 1; use only letters, digits and `-_.:`",
        ),
    ];
    for (text, expected, message) in cases {
        let error = SessionId::new(&text).unwrap_err();
        assert_eq!(error, expected);
        assert_eq!(error.to_string(), message);
        assert_eq!(error.code(), ErrorCode::ValidationError);
        let json = serde_json::to_string(&text).unwrap();
        assert!(serde_json::from_str::<SessionId>(&json).is_err());
    }
}

#[test]
fn ids_come_from_an_injected_source() {
    let ids = SequentialIds::new();
    let made = (
        ids.session_id().unwrap(),
        ids.call_id().unwrap(),
        ids.call_id().unwrap(),
    );
    let expected = (
        SessionId::new("session-1").unwrap(),
        CallId::new("call-1").unwrap(),
        CallId::new("call-2").unwrap(),
    );
    assert_eq!(made, expected);
}
