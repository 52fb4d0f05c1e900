//! Random chat bodies: none of them is an internal error, and one that is refused changes nothing.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Map, Value, json};
use tower::ServiceExt;

use super::agents::Desk;
use super::page::Page;
use crate::kit::{ALICE, Answer};
use crate::random::{Dice, from_environment};

/// The number of bodies, unless `HELIX_RANDOM_BODIES` is set.
const BODIES: u64 = 1_000;

/// Values that mean something to a chat.
const WORDS: [&str; 24] = [
    "s",
    "u0",
    "u2",
    "u9",
    "msg-1",
    "msg-3",
    "q1",
    "p1",
    "session-1/p1",
    "approval-1",
    "pay",
    "ask",
    "look",
    "user",
    "assistant",
    "submit-message",
    "regenerate-message",
    "clerk",
    "output-available",
    "output-error",
    "approval-responded",
    "dynamic-tool",
    "tool-ask",
    "step-start",
];

fn value(dice: &mut Dice, depth: u64) -> Value {
    match dice.roll(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => json!(dice.roll(2) == 0),
        2 => json!(dice.roll(9)),
        3 => json!(9_007_199_254_740_993_u64),
        4 => json!(dice.text()),
        5 => json!(dice.of(&WORDS)),
        6 => (0..dice.roll(4)).map(|_| value(dice, depth - 1)).collect(),
        _ => part(dice, depth - 1),
    }
}

/// Sets some of these fields, each to a value that fits it or to any.
fn some(dice: &mut Dice, fields: &[(&str, &[&str])], depth: u64) -> Value {
    let mut object = Map::new();
    for (name, fits) in fields {
        let set = match dice.roll(8) {
            0 => continue,
            1 => value(dice, depth),
            _ if fits.is_empty() => value(dice, depth),
            _ => json!(dice.of(fits)),
        };
        object.insert((*name).to_owned(), set);
    }
    Value::Object(object)
}

fn part(dice: &mut Dice, depth: u64) -> Value {
    let mut part = some(
        dice,
        &[
            (
                "type",
                &[
                    "text",
                    "dynamic-tool",
                    "dynamic-tool",
                    "tool-ask",
                    "file",
                    "step-start",
                    "data-x",
                ],
            ),
            ("text", &["count", "look", "pay and ask", ""]),
            ("toolCallId", &["q1", "p1", "l1", "session-1/p1", "zz"]),
            ("toolName", &["ask", "pay", "look"]),
            (
                "state",
                &[
                    "output-available",
                    "output-error",
                    "approval-responded",
                    "input-available",
                    "output-denied",
                ],
            ),
            ("output", &[]),
            ("errorText", &["no", ""]),
            ("url", &["data:,x"]),
            ("mediaType", &["text/plain"]),
        ],
        depth,
    );
    part["input"] = match dice.roll(3) {
        0 => value(dice, depth),
        1 => json!({ "cents": 5 }),
        _ => json!({ "what": "color" }),
    };
    if dice.roll(2) == 0 {
        part["approval"] = some(
            dice,
            &[
                ("id", &["approval-1", "approval-2"]),
                ("approved", &[]),
                ("reason", &["no"]),
            ],
            0,
        );
    }
    part
}

fn message(dice: &mut Dice, real: &[Value]) -> Value {
    let mut message = match dice.roll(3) {
        // As the page has it, perhaps with a part changed.
        0 | 1 => real[usize::try_from(dice.roll(real.len() as u64)).unwrap()].clone(),
        _ => some(
            dice,
            &[
                ("id", &["u0", "u2", "u9", "msg-3"]),
                ("role", &["user", "assistant", "system"]),
            ],
            1,
        ),
    };
    if dice.roll(2) == 0 {
        let more: Vec<Value> = (0..dice.roll(3)).map(|_| part(dice, 2)).collect();
        match message["parts"].as_array_mut() {
            Some(parts) => parts.extend(more),
            None => message["parts"] = json!(more),
        }
    }
    match dice.roll(6) {
        0 => message["metadata"] = value(dice, 2),
        1 => message["metadata"] = json!({ "hidden": true }),
        2 => message["content"] = value(dice, 1),
        _ => {}
    }
    message
}

fn body(dice: &mut Dice, real: &[Value]) -> Value {
    let mut body = some(
        dice,
        &[
            (
                "trigger",
                &[
                    "submit-message",
                    "submit-message",
                    "regenerate-message",
                    "resume-stream",
                ],
            ),
            ("messageId", &["u0", "u2", "msg-3", "u9"]),
            ("agentType", &["clerk", "clerk", "boss"]),
        ],
        1,
    );
    if dice.roll(20) > 0 {
        body["id"] = json!("s");
    }
    body["messages"] = match dice.roll(12) {
        0 => value(dice, 3),
        1 => json!(real),
        2 => json!(real[..real.len() - 1]),
        _ => (0..=dice.roll(3)).map(|_| message(dice, real)).collect(),
    };
    if dice.roll(6) == 0 {
        body["metadata"] = value(dice, 2);
    }
    body
}

async fn stored(desk: &Desk) -> Value {
    let snapshot = desk.snapshot().await;
    let mut all = Vec::new();
    for path in [
        "/sessions/s/messages?limit=200",
        "/status?sessionId=s",
        "/sessions/s",
        "/sessions/s/runs",
    ] {
        all.push(desk.place.get(path).await.ok());
    }
    json!([snapshot, all])
}

/// proves in part: SRV-02
#[tokio::test]
async fn random_chat_bodies_are_answered_and_refused_ones_change_nothing() {
    let seed = from_environment("HELIX_SEED").unwrap_or(20_261_118);
    let bodies = from_environment("HELIX_RANDOM_BODIES").unwrap_or(BODIES);
    println!("HELIX_SEED={seed}");
    let mut dice = Dice::new(seed);
    let (mut taken, mut refused) = (0, 0);
    let mut desk = None;
    let mut before = None;
    for turn in 0..bodies {
        // A session that has got far is left for a new one.
        if turn % 25 == 0 {
            let new = Desk::new();
            let mut page = Page::of(&new);
            page.say("look").await;
            page.say("pay and ask").await;
            let messages = page.messages.clone();
            desk = Some((new, messages));
            before = None;
        }
        let (desk, real) = desk.as_ref().unwrap();
        let before_it = match before.take() {
            Some(before) => before,
            None => stored(desk).await,
        };
        let body = body(&mut dice, real);
        let bytes = body.to_string();
        let keep = if dice.roll(30) == 0 {
            usize::try_from(dice.roll(bytes.len() as u64)).unwrap()
        } else {
            bytes.len()
        };
        let path = dice
            .of(&[
                "/chat",
                "/chat/s",
                "/api/chat",
                "/chat/never",
                "/chat?agentType=clerk",
            ])
            .to_owned();
        let position = dice.of(&["", "0", "3", "99", "x"]).to_owned();
        let request = Request::builder()
            .method("POST")
            .uri(&path)
            .header("authorization", format!("Bearer {}", ALICE.unwrap()))
            .header("content-type", "application/json")
            .header("last-event-id", position)
            .body(Body::from(bytes.as_bytes()[..keep].to_vec()));
        let answer = desk
            .place
            .app
            .clone()
            .oneshot(request.unwrap())
            .await
            .unwrap();
        let answer = Answer::of(answer).await;
        let status = answer.status.as_u16();
        let shown = format!("{turn} {path} {bytes}: {status} {}", answer.text());
        assert!(status < 500, "{shown}");
        if status >= 400 {
            answer.refused();
            refused += 1;
            let after = stored(desk).await;
            assert_eq!(after, before_it, "{shown}");
            before = Some(after);
        } else {
            taken += 1;
            // Whatever it is, every client can read it.
            super::reading::whole(&answer);
        }
    }
    println!("{taken} taken, {refused} refused");
    assert!(
        taken > bodies / 10 && refused > bodies / 10,
        "{taken} {refused}"
    );
}
