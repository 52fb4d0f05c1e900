//! Tests of the mock over the wire, as clients see it.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use helix_agents_mock_llm::MockLlm;
use serde_json::{Value, json};

/// A kept-alive connection of a client that reads responses as HTTP/1.1 defines them.
struct Client(BufReader<TcpStream>);

impl Client {
    fn of(server: &MockLlm) -> Self {
        Self(BufReader::new(
            TcpStream::connect(server.address()).unwrap(),
        ))
    }

    /// Sends a request and returns the status line and the decoded body.
    fn post(&mut self, path: &str, body: &str) -> (String, String) {
        let length = body.len();
        write!(
            self.0.get_mut(),
            "POST {path} HTTP/1.1\r\nHost: mock\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let status = self.line();
        let mut length = None;
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = Some(value.parse().unwrap());
            }
        }
        let mut body = Vec::new();
        match length {
            Some(length) => body = self.bytes(length),
            None => loop {
                let size = usize::from_str_radix(&self.line(), 16).unwrap();
                body.extend(self.bytes(size));
                assert_eq!(self.line(), "");
                if size == 0 {
                    break;
                }
            },
        }
        (status, String::from_utf8(body).unwrap())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn complete(&mut self, model: &str, tool_messages: usize, stream: bool) -> String {
        let tools = vec![json!({ "role": "tool", "content": "3" }); tool_messages];
        let body = json!({ "model": model, "messages": tools, "stream": stream });
        let (status, body) = self.post("/v1/chat/completions", &body.to_string());
        assert_eq!(status, "HTTP/1.1 200 OK");
        body
    }
}

/// The events of a streamed reply; the last is `[DONE]`.
fn events(body: &str) -> Vec<Value> {
    let mut events: Vec<_> = body.split_terminator("\n\n").collect();
    assert_eq!(events.pop(), Some("data: [DONE]"));
    events
        .iter()
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect()
}

#[test]
fn a_script_of_steps_calls_the_tool_and_then_replies_with_text() {
    let server = MockLlm::spawn().unwrap();
    let mut client = Client::of(&server);
    for step in 0..2 {
        let reply: Value = serde_json::from_str(&client.complete("steps-2", step, false)).unwrap();
        let choice = &reply["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls");
        assert_eq!(
            choice["message"]["tool_calls"],
            json!([{
                "id": format!("call_{step}"),
                "type": "function",
                "function": { "name": "add", "arguments": r#"{"a":1,"b":2}"# },
            }])
        );
    }
    let reply: Value = serde_json::from_str(&client.complete("steps-2", 2, false)).unwrap();
    let choice = &reply["choices"][0];
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(
        choice["message"],
        json!({ "role": "assistant", "content": "Done." })
    );
}

#[test]
fn a_streamed_call_has_the_arguments_of_the_whole_reply() {
    let server = MockLlm::spawn().unwrap();
    let events = events(&Client::of(&server).complete("steps-2", 1, true));
    let calls: Vec<_> = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["tool_calls"].get(0))
        .collect();
    assert_eq!(calls[0]["id"], "call_1");
    assert_eq!(calls[0]["function"]["name"], "add");
    let arguments: String = calls
        .iter()
        .map(|call| call["function"]["arguments"].as_str().unwrap())
        .collect();
    assert_eq!(arguments, r#"{"a":1,"b":2}"#);
    assert!(
        events
            .iter()
            .any(|event| event["choices"][0]["finish_reason"] == "tool_calls")
    );
    assert_eq!(events.last().unwrap()["usage"]["prompt_tokens"], 100);
}

#[test]
fn a_text_is_streamed_in_the_number_of_deltas_that_the_model_names() {
    let server = MockLlm::spawn().unwrap();
    let mut client = Client::of(&server);
    let deltas = events(&client.complete("deltas-1000", 0, true))
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .filter(|piece| !piece.is_empty())
        .map(str::to_owned)
        .collect::<Vec<_>>();
    assert_eq!(deltas.len(), 1000);
    let whole: Value = serde_json::from_str(&client.complete("deltas-1000", 0, false)).unwrap();
    assert_eq!(
        whole["choices"][0]["message"]["content"].as_str(),
        Some(deltas.concat().as_str())
    );
}

#[test]
fn requests_that_cannot_be_answered_are_refused_and_the_connection_stays() {
    let server = MockLlm::spawn().unwrap();
    let mut client = Client::of(&server);
    let (status, body) = client.post("/v1/chat/completions", r#"{"model":"gpt-5"}"#);
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert!(body.contains("use text, steps-N or deltas-N"), "{body}");
    let (status, _) = client.post("/v1/chat/completions", "{}");
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    let (status, _) = client.post("/v1/models", "{}");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    client.complete("text", 0, false);
}
