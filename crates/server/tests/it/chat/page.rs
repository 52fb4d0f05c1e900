//! A page that talks to the server as the stock client does.

use axum::body::BodyDataStream;
use axum::http::{HeaderValue, Response};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::agents::Desk;
use super::reading::{Bubble, Frame, frames, whole};
use crate::kit::{ALICE, Answer, Place, request};

/// A page with a chat: what it has of the messages.
pub(crate) struct Page<'a> {
    pub(crate) desk: &'a Desk,
    /// The agent that its requests name.
    pub(crate) agent: &'static str,
    pub(crate) messages: Vec<Value>,
    /// The last message that came in a stream.
    pub(crate) last: Bubble,
}

/// A message of a user.
pub(crate) fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] })
}

/// The body of a request with new messages.
pub(crate) fn body(messages: &[Value]) -> Value {
    json!({ "id": "s", "messages": messages, "trigger": "submit-message" })
}

impl<'a> Page<'a> {
    /// A page with an empty chat.
    pub(crate) fn of(desk: &'a Desk) -> Self {
        Self {
            desk,
            agent: "clerk",
            messages: Vec::new(),
            last: Bubble::new(),
        }
    }

    /// A page of a chat with this agent.
    pub(crate) fn with(desk: &'a Desk, agent: &'static str) -> Self {
        Self {
            agent,
            ..Self::of(desk)
        }
    }

    /// A page that is loaded: the snapshot, and then the stream if there is one.
    pub(crate) async fn loaded(desk: &'a Desk) -> Self {
        let mut page = Self::of(desk);
        let snapshot = desk.snapshot().await;
        page.messages = snapshot["messages"].as_array().unwrap().clone();
        page.resume().await;
        page
    }

    /// Reads the stream again, as a client does that has lost its connection.
    pub(crate) async fn resume(&mut self) {
        let answer = self.desk.place.get("/chat/s/stream").await;
        if answer.status == 204 {
            return;
        }
        self.last = Bubble::of(&whole(&answer));
        self.keep();
    }

    /// Sends a message, and reads the answer.
    pub(crate) async fn say(&mut self, text: &str) -> &Bubble {
        let id = format!("u{}", self.messages.len());
        self.messages.push(user(&id, text));
        self.send().await
    }

    /// The body of the next request.
    pub(crate) fn body(&self) -> Value {
        let mut body = body(&self.messages);
        body["agentType"] = json!(self.agent);
        let last = self.messages.last().unwrap();
        if last["role"] == "assistant" {
            body["messageId"] = last["id"].clone();
        }
        body
    }

    /// Sends what the page has, and reads the answer.
    pub(crate) async fn send(&mut self) -> &Bubble {
        let answer = self.desk.place.post("/chat", self.body()).await;
        self.read(&answer)
    }

    /// Reads an answer to what the page has sent.
    pub(crate) fn read(&mut self, answer: &Answer) -> &Bubble {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.headers["x-session-id"], "s");
        let last = self
            .messages
            .last()
            .filter(|last| last["role"] == "assistant");
        self.last = last.cloned().map_or_else(Bubble::new, Bubble::on);
        self.last.read(&whole(answer));
        self.keep();
        &self.last
    }

    /// Puts the message that came in the place of the one with its id, or after the others.
    fn keep(&mut self) {
        let message = self.last.message.clone();
        let id = &message["id"];
        match self.messages.iter_mut().find(|known| known["id"] == *id) {
            Some(known) => *known = message,
            None => self.messages.push(message),
        }
    }

    fn part(&mut self, call: &str) -> &mut Value {
        let last = self.messages.last_mut().unwrap();
        let parts = last["parts"].as_array_mut().unwrap();
        let part = parts.iter_mut().find(|part| part["toolCallId"] == call);
        part.unwrap_or_else(|| panic!("no call {call}"))
    }

    /// Notes the result of a call, as `addToolOutput` does.
    pub(crate) fn answer(&mut self, call: &str, output: &Value) {
        let part = self.part(call);
        part["state"] = json!("output-available");
        part["output"] = output.clone();
    }

    /// Notes a decision, as `addToolApprovalResponse` does.
    pub(crate) fn decide(&mut self, call: &str, approved: bool) {
        let part = self.part(call);
        assert_eq!(part["state"], "approval-requested", "{part}");
        part["state"] = json!("approval-responded");
        part["approval"]["approved"] = json!(approved);
        if !approved {
            part["approval"]["reason"] = json!("too much");
        }
    }

    /// Whether one of the stock helpers would send again by itself: the last step has calls of the client, and all of
    /// them are answered.
    pub(crate) fn would_send(&self) -> bool {
        let Some(last) = self
            .messages
            .last()
            .filter(|last| last["role"] == "assistant")
        else {
            return false;
        };
        let parts = last["parts"].as_array().unwrap();
        let step = parts.iter().rposition(|part| part["type"] == "step-start");
        let calls: Vec<_> = parts[step.map_or(0, |step| step + 1)..]
            .iter()
            .filter(|part| part["type"] == "dynamic-tool")
            .collect();
        let is_in =
            |part: &Value, states: &[&str]| states.iter().any(|state| part["state"] == *state);
        let clients = || calls.iter().filter(|part| part["providerExecuted"] != true);
        let over = ["output-available", "output-error"];
        let by_outputs = clients().count() > 0 && clients().all(|part| is_in(part, &over));
        let all = [
            "output-available",
            "output-error",
            "output-denied",
            "approval-responded",
        ];
        let by_decisions = calls.iter().any(|part| is_in(part, &all[3..]))
            && calls.iter().all(|part| is_in(part, &all));
        self.last.error.is_none() && (by_outputs || by_decisions)
    }
}

impl Desk {
    pub(crate) async fn snapshot(&self) -> Value {
        self.place.get("/chat/s/snapshot").await.ok()
    }

    /// What waits, as the store has it.
    pub(crate) async fn pending(&self) -> Value {
        self.place.get("/status?sessionId=s").await.ok()["pending"].clone()
    }

    /// Sends a body as Alice, and returns the stream of the response.
    pub(crate) async fn open(&self, body: Value) -> Live {
        let request = request(ALICE, "POST", "/chat", Some(body));
        Live::of(self.place.app.clone().oneshot(request).await.unwrap())
    }

    /// Sends a body as the client that has everything up to here, and returns the stream of the response.
    pub(crate) async fn open_after(&self, body: Value, cursor: &str) -> Live {
        let mut request = request(ALICE, "POST", "/chat", Some(body));
        let cursor = HeaderValue::from_str(cursor).unwrap();
        request.headers_mut().insert("last-event-id", cursor);
        Live::of(self.place.app.clone().oneshot(request).await.unwrap())
    }

    /// Reads the stream of the chat from the beginning of its bubble.
    pub(crate) async fn watch(&self) -> Live {
        let request = request(ALICE, "GET", "/chat/s/stream", None);
        Live::of(self.place.app.clone().oneshot(request).await.unwrap())
    }

    /// Reads the rest of the stream, as the client that has everything up to here.
    pub(crate) async fn watch_after(&self, cursor: &str) -> Live {
        let mut request = request(ALICE, "GET", "/chat/s/stream", None);
        let cursor = HeaderValue::from_str(cursor).unwrap();
        request.headers_mut().insert("last-event-id", cursor);
        Live::of(self.place.app.clone().oneshot(request).await.unwrap())
    }

    /// Gets a path with a header.
    pub(crate) async fn get_with(&self, path: &str, headers: &[(&'static str, &str)]) -> Answer {
        self.ask_with("GET", path, None, headers).await
    }

    pub(crate) async fn ask_with(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        headers: &[(&'static str, &str)],
    ) -> Answer {
        let mut asked = request(ALICE, method, path, body);
        for (name, value) in headers {
            asked
                .headers_mut()
                .insert(*name, HeaderValue::from_str(value).unwrap());
        }
        Answer::of(self.place.app.clone().oneshot(asked).await.unwrap()).await
    }
}

/// A response that is read while it is written.
pub(crate) struct Live {
    body: BodyDataStream,
    text: String,
}

impl Live {
    fn of(response: Response<axum::body::Body>) -> Self {
        assert_eq!(response.status(), 200);
        Self {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    /// Reads until a frame contains this text.
    pub(crate) async fn until(&mut self, text: &str) -> Vec<Frame> {
        while !self.text.contains(text) {
            let piece = self.body.next().await;
            let piece = piece.unwrap_or_else(|| panic!("ended before {text:?}: {}", self.text));
            self.text
                .push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
        }
        frames(&self.text)
    }

    /// Reads to the end.
    pub(crate) async fn end(mut self) -> Vec<Frame> {
        self.until("data: [DONE]\n\n").await
    }
}

/// How often somebody was paid.
pub(crate) fn paid(place: &Place) -> usize {
    place.outside.paid.load(std::sync::atomic::Ordering::SeqCst)
}
