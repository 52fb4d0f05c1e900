//! Tests of the page of `helix dev`, in a real browser.

use serde_json::json;

use crate::browser::Browser;
use crate::kit::{Folder, config};
use crate::programs;
use crate::serving::Served;

pub(crate) fn send_message(browser: &mut Browser, text: &str) {
    let text = json!(text);
    browser.until(
        "!document.getElementById('send').disabled && document.getElementById('stop').hidden",
    );
    browser.value(&format!(
        "document.getElementById('text').value = {text}; document.getElementById('message-form').requestSubmit()"
    ));
}

pub(crate) fn press(browser: &mut Browser, word: &str) {
    let word = json!(word);
    let find = format!(
        "[...document.querySelectorAll('.card button')].find((one) => one.textContent === {word})"
    );
    browser.until(&format!("{find} !== undefined"));
    browser.value(&format!("{find}.click()"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_survives_a_refresh_and_is_answered_in_the_page() {
    let Some(chromium) = programs::find("chromium") else {
        return;
    };
    let folder = Folder::empty();
    let served = Served::start(&folder, &["dev", "--agent", "support"]);
    let mut browser = Browser::start(&chromium);
    browser.open(served.url());
    browser.until("document.getElementById('agent').value === 'support'");
    send_message(&mut browser, "I want a refund");
    browser.shows("Run refund?");
    browser.shows("so I can refund it.");

    // Everything is shown again, and the pending call is still pending.
    browser.reload();
    browser.shows("Run refund?");
    let shown = browser.value("document.getElementById('log').innerText");
    let shown = shown.as_str().unwrap();
    for text in [
        "I want a refund",
        "Let me look at the order.",
        "lookup_order: done",
    ] {
        assert_eq!(shown.matches(text).count(), 1, "{text}: {shown}");
    }
    press(&mut browser, "Approve");
    browser.shows("The result of the refund: {\"refundedCents\":1999}");

    // When another client answers meanwhile, the page notices and continues.
    send_message(&mut browser, "Another refund");
    browser.until("document.querySelectorAll('.card').length === 1");
    let session = browser.value("location.hash.slice(1)");
    let (_, now) = served
        .ask(
            &format!("/status?sessionId={}", session.as_str().unwrap()),
            None,
            None,
        )
        .await;
    let call = now["pending"][0]["toolCallId"].as_str().unwrap();
    let submit = ["submit", session.as_str().unwrap(), call, "--approve"];
    folder.helix(&submit).ends(0);
    browser.until("document.body.innerText.match(/result of the refund/g)?.length === 2");

    // The same session continues, and messages are shown as text, whatever they look like.
    send_message(&mut browser, "<img src=x onerror=alert(1)>");
    browser.shows("You said: <img src=x onerror=alert(1)>");
    browser.reload();
    browser.shows("You said: <img src=x onerror=alert(1)>");
    assert_eq!(
        browser.value("document.querySelectorAll('.user').length"),
        json!(3)
    );
    assert_eq!(
        browser.value("document.querySelectorAll('img').length"),
        json!(0)
    );
    assert_eq!(browser.value("window.wrong"), json!([]));
}

/// A message during a run interrupts it. What was said is kept, and every message is shown once, also after
/// a refresh.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_during_a_run_interrupts_it() {
    let Some(chromium) = programs::find("chromium") else {
        return;
    };
    let script = r#"{ "rules": [
        { "match": "long", "steps": [ { "text": "TEXT", "chunk_chars": 5, "delay_ms": 20 } ] } ],
      "default": [ { "text": "Echo: {{last_user}}" } ] }"#;
    let script = script.replace("TEXT", &"word ".repeat(4_000));
    let folder = Folder::with(&config("[agents.a]\nmodel = \"fast\"\n"), &script);
    let served = Served::start(&folder, &["dev"]);
    let mut browser = Browser::start(&chromium);
    browser.open(served.url());
    browser.until("document.getElementById('agent').value === 'a'");
    send_message(&mut browser, "A long story, please.");
    browser.shows("word word");
    browser.value(
        "document.getElementById('text').value = 'and you?'; \
         document.getElementById('message-form').requestSubmit()",
    );
    browser.shows("Stopped. a new message was sent");
    browser.shows("Echo: and you?");
    for _ in 0..2 {
        browser.until("document.querySelectorAll('.user').length === 2");
        let shown = browser.value("document.getElementById('log').innerText");
        let shown = shown.as_str().unwrap();
        for text in ["A long story, please.", "Echo: and you?"] {
            assert_eq!(shown.matches(text).count(), 1, "{text}: {shown}");
        }
        assert!(shown.contains("word word"));
        assert_eq!(
            browser.value("[...document.querySelectorAll('.user')].map((one) => one.textContent)"),
            json!(["A long story, please.", "and you?"])
        );
        browser.reload();
        browser.shows("Echo: and you?");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_filled_in_and_a_denial_is_shown() {
    let Some(chromium) = programs::find("chromium") else {
        return;
    };
    let folder = Folder::empty();
    let served = Served::start(&folder, &["dev", "--agent", "form"]);
    let mut browser = Browser::start(&chromium);
    browser.open(served.url());
    browser.until("document.getElementById('agent').value === 'form'");
    send_message(&mut browser, "hello");
    browser.shows("Your delivery");
    browser.value(
        "for (const one of document.querySelectorAll('.card input')) one.value = `my ${one.name}`",
    );
    press(&mut browser, "Send");
    browser.shows("I noted: {\"color\":\"my color\",\"name\":\"my name\"}");

    browser.loads_again("document.getElementById('new-chat').click()");
    browser.until("!location.hash && document.querySelectorAll('.user').length === 0");
    browser.until("document.getElementById('agent').value === 'form'");
    browser.value("document.getElementById('agent').value = 'support'");
    send_message(&mut browser, "refund me");
    browser.shows("Run refund?");
    browser.value("document.querySelector('.card input').value = 'too late'");
    press(&mut browser, "Deny");
    browser.shows("Denied: too late");
    browser.shows("The result of the refund");
    assert_eq!(browser.value("window.wrong"), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_shown_once() {
    let Some(chromium) = programs::find("chromium") else {
        return;
    };
    let agent = "[agents.a]\nmodel = \"fast\"\n";
    let script = r#"{ "default": [ { "error": { "kind": "auth", "attempts": 9 } } ] }"#;
    let folder = Folder::with(&config(agent), script);
    let served = Served::start(&folder, &["dev"]);
    let mut browser = Browser::start(&chromium);
    browser.open(&format!("{}/#%", served.url()));
    browser.until("document.getElementById('agent').value === 'a'");
    send_message(&mut browser, "hello");
    browser.value("document.getElementById('message-form').requestSubmit()");
    browser.until("document.querySelector('.error') && document.getElementById('stop').hidden");
    let (_, sessions) = served.ask("/sessions", None, None).await;
    assert_eq!(sessions["total"], json!(1), "sent twice, started once");
    let errors = "document.querySelectorAll('.error').length";
    assert_eq!(browser.value(errors), json!(1));
    // A missing session is reported too, and a new chat can be started.
    browser.open(&format!("{}/?again#nobody", served.url()));
    browser.until("document.querySelector('.error')");
    assert_eq!(browser.value("window.wrong"), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_loads_nothing_external_and_cannot_be_framed() {
    let folder = Folder::empty();
    let served = Served::start(&folder, &["dev"]);
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/visible.js", "text/javascript; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
    ] {
        let answer = served.get(path).await;
        assert_eq!(answer.status().as_u16(), 200, "{path}");
        assert_eq!(answer.headers()["content-type"], kind);
        let policy = answer.headers()["content-security-policy"]
            .to_str()
            .unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        let text = answer.text().await.unwrap();
        assert!(!text.contains("://"), "{path} names an address: {text}");
    }
    // The production server has no page.
    let open = "[server]\nallow_unauthenticated = true\n";
    let folder = Folder::with(&config(open), r#"{ "default": [] }"#);
    let served = Served::start(&folder, &["serve"]);
    assert_eq!(served.get("/").await.status().as_u16(), 404);
}
