//! Tests that random input never causes an internal error.

use axum::body::Body;
use axum::http::Request;
use helix_agents_server::Operation;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::kit::{ALICE, Answer, Place};

/// The number of bodies per route, unless `HELIX_RANDOM_BODIES` is set.
const BODIES: u64 = 2_000;

/// A small random number generator with reproducible seeds.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub(crate) fn of<'a>(&mut self, any: &[&'a str]) -> &'a str {
        any[usize::try_from(self.roll(any.len() as u64)).unwrap()]
    }

    pub(crate) fn text(&mut self) -> String {
        let length = self.roll(12);
        let any = [
            "a", "s", "..", "/", "\0", "ä", "\r\n", "%", "\"", "💥", "{", "'", " ",
        ];
        (0..length).map(|_| self.of(&any)).collect()
    }

    fn value(&mut self, depth: u64) -> Value {
        let known = [
            "s",
            "desk",
            "hello",
            "ask",
            "pay",
            "continue",
            "with_message",
            "client-tool-result",
            "approval-response",
            "q1",
            "approval-1",
            "run-1",
            "cp-1",
            "user",
        ];
        match self.roll(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.roll(2) == 0),
            2 => json!(self.roll(u64::MAX)),
            3 => json!(-1.5e300),
            4 => json!(self.text()),
            5 => json!(self.of(&known)),
            6 => (0..self.roll(4)).map(|_| self.value(depth - 1)).collect(),
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: u64) -> Value {
        let keys = [
            "sessionId",
            "agentType",
            "message",
            "state",
            "metadata",
            "tags",
            "mode",
            "checkpointId",
            "abandonPending",
            "reason",
            "kind",
            "toolCallId",
            "result",
            "error",
            "approvalId",
            "approved",
            "digest",
            "runId",
            "messageIndex",
            "newSessionId",
            "role",
            "content",
            "files",
            "other",
        ];
        let mut object = serde_json::Map::new();
        for _ in 0..self.roll(8) {
            let key = self.of(&keys).to_owned();
            object.insert(key, self.value(depth));
        }
        Value::Object(object)
    }

    /// Returns a random body: JSON, truncated JSON, or bytes.
    fn body(&mut self) -> Vec<u8> {
        match self.roll(10) {
            0 => (0..self.roll(64))
                .map(|_| self.roll(256).to_le_bytes()[0])
                .collect(),
            1 => {
                let mut bytes = self.object(3).to_string().into_bytes();
                let keep = self.roll(bytes.len() as u64 + 1);
                bytes.truncate(usize::try_from(keep).unwrap());
                bytes
            }
            2 => "["
                .repeat(usize::try_from(self.roll(5_000)).unwrap())
                .into_bytes(),
            3 => self.value(3).to_string().into_bytes(),
            _ => {
                let mut object = self.object(3);
                // Most bodies name an existing session, or few requests would get far.
                if self.roll(3) > 0 {
                    object["sessionId"] = json!("s");
                }
                object.to_string().into_bytes()
            }
        }
    }

    /// Returns a random query.
    fn query(&mut self) -> String {
        let keys = [
            "sessionId",
            "fromSequence",
            "userId",
            "status",
            "tags",
            "metadata",
            "metadata.a",
            "from",
            "to",
            "offset",
            "limit",
            "entries",
            "parentSessionId",
            "%ff",
        ];
        let values = [
            "s",
            "0",
            "1",
            "-1",
            "%00",
            "%ff",
            "active",
            "{}",
            "99999999999999999999",
            "",
            "a,b",
        ];
        let pairs: Vec<_> = (0..self.roll(5))
            .map(|_| format!("{}={}", self.of(&keys), self.of(&values)))
            .collect();
        pairs.join("&")
    }
}

pub(crate) fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test]
async fn random_bodies_and_queries_are_answered() {
    let seed = from_environment("HELIX_SEED").unwrap_or(20_261_115);
    let bodies = from_environment("HELIX_RANDOM_BODIES").unwrap_or(BODIES);
    println!("HELIX_SEED={seed}");
    let mut dice = Dice::new(seed);
    for operation in Operation::ALL {
        let place = Place::new();
        place.ended("ask").await;
        for turn in 0..bodies {
            let id = dice
                .of(&["s", "s", "never", "..", "%2e", "x%0d"])
                .to_owned();
            let path = operation.path().replace("{id}", &id);
            let query = dice.query();
            let body = dice.body();
            let shown = String::from_utf8_lossy(&body).into_owned();
            let request = Request::builder()
                .method(operation.method())
                .uri(format!("{path}?{query}"))
                .header("authorization", format!("Bearer {}", ALICE.unwrap()))
                .header("content-type", "application/json")
                .body(Body::from(body));
            let answer = place.app.clone().oneshot(request.unwrap()).await.unwrap();
            let answer = Answer::of(answer).await;
            let status = answer.status.as_u16();
            assert!(
                status < 500 || status == 503,
                "{operation} {turn} {path}?{query} {shown}: {status} {}",
                answer.text()
            );
            if status >= 400 {
                answer.refused();
            }
        }
    }
}
