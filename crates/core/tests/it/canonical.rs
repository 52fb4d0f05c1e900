use helix_agents_core::canonical::{Digest, canonical_json, idempotency_key};
use helix_agents_core::{CallId, RunId, SessionId};
use serde_json::{Value, json};

#[test]
fn equal_values_have_the_same_canonical_text() {
    let value = json!({"b": [1, 2.5, null, true], "a": {"z": "\"\n", "é": {}}});
    assert_eq!(
        canonical_json(&value),
        r#"{"a":{"z":"\"\n","é":{}},"b":[1,2.5,null,true]}"#
    );
    let other: Value =
        serde_json::from_str(r#"{ "a" : {"é":{}, "z":"\"\n"}, "b":[1,2.5,null,true] }"#).unwrap();
    assert_eq!(canonical_json(&other), canonical_json(&value));
}

#[test]
fn a_call_digest_depends_on_the_tool_and_on_every_argument() {
    let digest = Digest::of_call("refund", &json!({"order": "42", "cents": 100}));
    let same = Digest::of_call("refund", &json!({"cents": 100, "order": "42"}));
    assert_eq!(digest, same);
    let others = [
        Digest::of_call("refund", &json!({"order": "42", "cents": 101})),
        Digest::of_call("refunds", &json!({"order": "42", "cents": 100})),
        Digest::of_call("refund", &json!({"order": 42, "cents": 100})),
        Digest::of_parts(["call", "refund"]),
    ];
    assert!(others.iter().all(|other| *other != digest));
}

#[test]
fn parts_of_a_digest_cannot_run_into_each_other() {
    assert_ne!(Digest::of_parts(["ab", "c"]), Digest::of_parts(["a", "bc"]));
    assert_ne!(Digest::of_parts(["a"]), Digest::of_parts(["a", ""]));
}

#[test]
fn digests_never_change() {
    let digest = Digest::of_call("add", &json!({"a": 1}));
    // Computed outside this program: SHA-256 over each part after its length, 8 bytes big-endian.
    let expected = "0818635060a91bfd10d8b7eba2cebc0b55eb439ce42ffe1261c6fd0cef92272a";
    assert_eq!(digest.to_string(), expected);
    let json = serde_json::to_string(&digest).unwrap();
    assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
    for bad in ["\"\"", "\"xyz\"", &format!("\"{}\"", "g".repeat(64))] {
        assert!(serde_json::from_str::<Digest>(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_idempotency_key_depends_on_session_run_and_call() {
    let key = |session, run, call| {
        let (session, run) = (SessionId::new(session).unwrap(), RunId::new(run).unwrap());
        idempotency_key(&session, &run, &CallId::new(call).unwrap())
    };
    let one = key("s1", "r1", "c1");
    assert_eq!(one, key("s1", "r1", "c1"));
    for other in [
        key("s1", "r1", "c2"),
        key("s1", "r2", "c1"),
        key("s2", "r1", "c1"),
    ] {
        assert_ne!(one, other);
    }
}
