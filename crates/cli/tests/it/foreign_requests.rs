//! Tests of requests that must not reach or block `helix dev`.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::kit::Folder;
use crate::serving::Served;

/// Sends raw bytes, and returns the status line of the response.
async fn sent(served: &Served, request: &str) -> String {
    let mut stream = begun(served, request).await;
    let mut answer = String::new();
    // A connection that is reset gives no more bytes either.
    let _ = stream.read_to_string(&mut answer).await;
    answer.lines().next().unwrap_or_default().to_owned()
}

async fn begun(served: &Served, bytes: &str) -> TcpStream {
    let address = served.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream
}

fn start(host: &str, more: &str) -> String {
    let body = json!({ "agentType": "support", "message": "hi" }).to_string();
    format!(
        "POST /start HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_page_of_another_site_cannot_reach_dev() {
    let folder = Folder::empty();
    let served = Served::start(&folder, &["dev"]);
    let host = served.url().strip_prefix("http://").unwrap();
    let json = "content-type: application/json\r\n";
    for (host, more, wanted) in [
        (host, json.to_owned(), "200"),
        (host, format!("{json}origin: http://{host}\r\n"), "200"),
        // A name that resolves to this host, a page of another site, a page without an origin, a
        // form.
        ("evil.example", json.to_owned(), "403"),
        ("localhost.evil.example", json.to_owned(), "403"),
        (
            host,
            format!("{json}origin: http://evil.example\r\n"),
            "403",
        ),
        (host, format!("{json}origin: null\r\n"), "403"),
        (host, format!("{json}host: evil.example\r\n"), "403"),
        (host, "content-type: text/plain\r\n".to_owned(), "400"),
        (
            host,
            "content-type: application/x-www-form-urlencoded\r\n".to_owned(),
            "400",
        ),
    ] {
        let line = sent(&served, &start(host, &more)).await;
        assert!(line.contains(wanted), "{host} {more}: {line}");
    }
    let (_, sessions) = served.ask("/sessions", None, None).await;
    assert_eq!(sessions["total"], json!(2), "{sessions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_broken_requests_do_not_block_others() {
    let folder = Folder::empty();
    let served = Served::start(&folder, &["dev"]);
    let host = served.url().strip_prefix("http://").unwrap();
    let mut slow = Vec::new();
    for n in 0..200 {
        let bytes = match n % 3 {
            0 => String::new(),
            1 => format!("GET /sessions HTTP/1.1\r\nhost: {host}\r\nx-slow: "),
            _ => format!(
                "POST /start HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
                 content-length: 100\r\n\r\n{{"
            ),
        };
        slow.push(begun(&served, &bytes).await);
    }
    for broken in [
        "\0\0\0\0\r\n\r\n".to_owned(),
        "GET /status?sessionId=a%0d%0ax:%20y HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_owned(),
        "GET /sessions/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "a".repeat(1 << 20)),
        "POST /start HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
    ] {
        let line = sent(&served, &broken).await;
        let start: String = broken.chars().take(60).collect();
        assert!(line.is_empty() || line.contains(" 4"), "{start:?}: {line}");
    }
    let (status, _) = served.ask("/healthz", None, None).await;
    assert_eq!(status, 200);
    drop(slow);
    assert_eq!(served.terminate(), Some(0));
}
