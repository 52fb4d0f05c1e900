//! Tests of the builtin tools.

use serde_json::json;

use crate::kit::{call, refused, surroundings, tool};
use crate::service::{Reply, Service};

#[tokio::test]
async fn the_clock_returns_the_time() {
    let clock = tool("kind = \"builtin\"\nbuiltin = \"clock\"");
    let now = call(&clock, json!({})).await.unwrap();
    assert!(now["utc"].as_str().unwrap().ends_with('Z'), "{now}");
    assert!(now["unixMs"].as_u64().unwrap() > 1_700_000_000_000, "{now}");
}

#[tokio::test]
async fn the_calculator_evaluates_expressions() {
    let calculator = tool("kind = \"builtin\"\nbuiltin = \"calculator\"");
    let input = json!({ "expression": "(2 + 3) * 4" });
    assert_eq!(call(&calculator, input).await.unwrap(), 20);
    let text = refused(&calculator, json!({ "expression": "1 / 0" })).await;
    assert!(text.contains("not a number"), "{text}");
}

#[tokio::test]
async fn notes_are_kept_in_the_state() {
    let notes = tool("kind = \"builtin\"\nbuiltin = \"notes\"");
    let (cx, state) = surroundings("c1", json!({}));
    let steps = [
        (json!({ "action": "add", "text": "milk" }), json!(["milk"])),
        (
            json!({ "action": "add", "text": "bread" }),
            json!(["milk", "bread"]),
        ),
        (json!({ "action": "remove", "number": 1 }), json!(["bread"])),
        (json!({ "action": "list" }), json!(["bread"])),
    ];
    for (input, left) in steps {
        assert_eq!(
            notes.call(input, cx.clone()).await.unwrap(),
            json!({ "notes": left })
        );
    }
    assert_eq!(*state.get().unwrap(), json!({ "notes": ["bread"] }));
    let text = refused(&notes, json!({ "action": "remove", "number": 5 })).await;
    assert_eq!(text, "note 5 not found; there are 0");
}

fn fetch(allow: &str) -> helix_agents_core::Tool {
    tool(&format!("kind = \"builtin\"\nbuiltin = \"fetch\"\n{allow}"))
}

#[tokio::test]
async fn private_addresses_are_not_fetched() {
    let service = Service::that(vec![Reply::Says(200, "text/plain", "secret".into())]).await;
    let port = service.address.rsplit_once(':').unwrap().1;
    let hosts = [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
        "0x7f.1",
    ];
    for host in hosts {
        let text = refused(
            &fetch(""),
            json!({ "url": format!("http://{host}:{port}/") }),
        )
        .await;
        assert!(text.contains("not allowed"), "{host}: {text}");
    }
    for url in [
        "http://169.254.169.254/latest",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "http://a:b@1.1.1.1/",
    ] {
        let text = refused(&fetch(""), json!({ "url": url })).await;
        assert!(
            text.contains("not allowed") || text.contains("not"),
            "{url}: {text}"
        );
    }
    assert!(service.asked().is_empty());
}

#[tokio::test]
async fn listed_addresses_are_fetched() {
    let service = Service::that(vec![Reply::Says(200, "text/plain", "hello".into())]).await;
    let port = service.address.rsplit_once(':').unwrap().1;
    let lists = [
        (format!("allow = [\"{}\"]", service.address), "127.0.0.1"),
        ("allow = [\"localhost\"]".to_owned(), "localhost"),
        ("allow = [\"127.0.0.0/8\"]".to_owned(), "127.0.0.1"),
    ];
    for (allow, host) in lists {
        let url = format!("http://{host}:{port}/x");
        let got = call(&fetch(&allow), json!({ "url": url })).await.unwrap();
        assert_eq!(
            got,
            json!({ "url": url, "status": 200, "contentType": "text/plain", "body": "hello", "truncated": false })
        );
    }
    let text = refused(
        &fetch("allow = [\"example.com\"]"),
        json!({ "url": "http://1.1.1.1/" }),
    )
    .await;
    assert!(
        text.contains("not allowed"),
        "a list is the whole list: {text}"
    );
}

#[tokio::test]
async fn a_redirect_is_checked_like_the_first_address() {
    let inside = Service::that(vec![Reply::Says(200, "text/plain", "secret".into())]).await;
    let to = format!("http://{}/", inside.address);
    let door = Service::that(vec![Reply::Leads(to)]).await;
    let url = json!({ "url": format!("http://{}/", door.address) });
    let text = refused(
        &fetch(&format!("allow = [\"{}\"]", door.address)),
        url.clone(),
    )
    .await;
    assert!(text.contains("not allowed"), "{text}");
    assert!(inside.asked().is_empty());

    let both = format!("allow = [\"{}\", \"{}\"]", door.address, inside.address);
    assert_eq!(call(&fetch(&both), url).await.unwrap()["body"], "secret");

    let circle = Service::that(vec![Reply::Leads("/again".to_owned())]).await;
    let url = json!({ "url": format!("http://{}/", circle.address) });
    let text = refused(&fetch(&format!("allow = [\"{}\"]", circle.address)), url).await;
    assert!(text.contains("more than 5 times"), "{text}");
}

#[tokio::test]
async fn missing_response_headers_are_left_out() {
    let service = Service::that(vec![Reply::Says(200, "", "hello".into())]).await;
    let url = format!("http://{}/", service.address);
    let allow = format!("allow = [\"{}\"]", service.address);
    let got = call(&fetch(&allow), json!({ "url": url })).await.unwrap();
    let wanted = json!({ "url": url, "status": 200, "body": "hello", "truncated": false });
    assert_eq!(got, wanted);
}
