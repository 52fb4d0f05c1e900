//! Tests of the studio that `helix dev` serves, in a real browser.

use serde_json::json;

use crate::browser::Browser;
use crate::kit::{Folder, config};
use crate::programs;
use crate::serving::Served;

/// The selector of an element by the name that tests know it by.
pub(crate) fn named(name: &str) -> String {
    format!("[data-testid={name}]")
}

/// Counts the elements of a name.
pub(crate) fn count(name: &str) -> String {
    format!("document.querySelectorAll('{}').length", named(name))
}

/// Opens a new chat with an agent.
pub(crate) fn open_agent(browser: &mut Browser, served: &Served, agent: &str) {
    browser.open(&format!("{}/?agent={agent}", served.url()));
    browser.until(&format!(
        "document.querySelector('{}')?.dataset.agent === {}",
        named("agent-picker"),
        json!(agent)
    ));
}

/// Types a text into a control, as the page hears it.
pub(crate) fn fill(browser: &mut Browser, selector: &str, text: &str) {
    let (selector, text) = (json!(selector), json!(text));
    browser.until(&format!("document.querySelector({selector}) !== null"));
    browser.value(&format!(
        "(() => {{
            const control = document.querySelector({selector});
            const own = Object.getPrototypeOf(control);
            Object.getOwnPropertyDescriptor(own, 'value').set.call(control, {text});
            control.dispatchEvent(new Event('input', {{ bubbles: true }}));
        }})()"
    ));
}

/// Writes a message and presses Enter, whatever the agent does.
pub(crate) fn type_and_enter(browser: &mut Browser, text: &str) {
    let composer = named("composer");
    fill(browser, &composer, text);
    browser.value(&format!(
        "document.querySelector('{composer}').dispatchEvent(
            new KeyboardEvent('keydown', {{ key: 'Enter', bubbles: true, cancelable: true }}))"
    ));
}

/// Sends a message once the agent is at rest.
pub(crate) fn send_message(browser: &mut Browser, text: &str) {
    browser.until(&format!("{} === 1", count("send")));
    fill(browser, &named("composer"), text);
    press(browser, "send");
}

/// Presses the first control of a name, once it can be pressed.
pub(crate) fn press(browser: &mut Browser, name: &str) {
    let find = format!("document.querySelector('{}:not([disabled])')", named(name));
    browser.until(&format!("{find} !== null"));
    browser.value(&format!("{find}.click()"));
}

/// Returns the session in the address of the page.
pub(crate) fn session(browser: &mut Browser) -> String {
    browser.until("location.pathname.startsWith('/s/')");
    let session = browser.value("location.pathname.slice('/s/'.length)");
    session.as_str().unwrap().to_owned()
}

/// Returns everything that the conversation shows, also what is scrolled out of sight and therefore not laid out.
pub(crate) fn conversation(browser: &mut Browser) -> String {
    let text = format!(
        "document.querySelector('{}').textContent",
        named("messages")
    );
    browser.value(&text).as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_survives_a_refresh_and_is_answered_in_the_page() {
    let Some(chromium) = programs::find("chromium") else {
        return;
    };
    let folder = Folder::empty();
    let served = Served::start(&folder, &["dev", "--agent", "support"]);
    let mut browser = Browser::start(&chromium);
    open_agent(&mut browser, &served, "support");
    send_message(&mut browser, "I want a refund");
    browser.shows("Run refund?");
    browser.shows("so I can refund it.");

    // Everything is shown again, and the pending call is still pending.
    browser.reload();
    browser.shows("Run refund?");
    browser.shows("so I can refund it.");
    let shown = conversation(&mut browser);
    for text in [
        "I want a refund",
        "Let me look at the order.",
        "lookup_order",
    ] {
        assert_eq!(shown.matches(text).count(), 1, "{text}: {shown}");
    }
    press(&mut browser, "approve");
    browser.shows("The result of the refund: {\"refundedCents\":1999}");
    browser.shows("Approved by you");

    // When another client answers meanwhile, the page notices and continues.
    send_message(&mut browser, "Another refund");
    browser.until(&format!("{} === 1", count("approve")));
    let session = session(&mut browser);
    let (_, now) = served
        .ask(&format!("/status?sessionId={session}"), None, None)
        .await;
    let call = now["pending"][0]["toolCallId"].as_str().unwrap();
    folder
        .helix(&["submit", &session, call, "--approve"])
        .ends(0);
    browser.until("document.body.textContent.match(/result of the refund/g)?.length === 2");

    // The same session continues, and messages are shown as text, whatever they look like.
    send_message(&mut browser, "<img src=x onerror=alert(1)>");
    browser.shows("You said: <img src=x onerror=alert(1)>");
    browser.reload();
    browser.shows("You said: <img src=x onerror=alert(1)>");
    browser.until(&format!("{} === 3", count("message-user")));
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
    open_agent(&mut browser, &served, "a");
    send_message(&mut browser, "A long story, please.");
    browser.shows("word word");
    type_and_enter(&mut browser, "and you?");
    browser.shows("Echo: and you?");
    browser.shows("Stopped");
    let users = format!(
        "[...document.querySelectorAll('{}')].map((one) => one.innerText)",
        named("message-user")
    );
    for _ in 0..2 {
        browser.until(&format!("{} === 2", count("message-user")));
        browser.until(&format!("{} === 2", count("run-ended")));
        let shown = conversation(&mut browser);
        for text in ["A long story, please.", "Echo: and you?"] {
            assert_eq!(shown.matches(text).count(), 1, "{text}: {shown}");
        }
        assert!(shown.contains("word word"), "{shown}");
        assert_eq!(
            browser.value(&users),
            json!(["A long story, please.", "and you?"])
        );
        browser.reload();
        browser.shows("Echo: and you?");
    }
    assert_eq!(browser.value("window.wrong"), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_filled_in_and_a_denial_is_shown() {
    let Some(chromium) = programs::find("chromium") else {
        return;
    };
    let folder = Folder::empty();
    let served = Served::start(&folder, &["dev", "--agent", "form"]);
    let mut browser = Browser::start(&chromium);
    open_agent(&mut browser, &served, "form");
    send_message(&mut browser, "hello");
    browser.shows("Your delivery");
    let form = named("client-form");
    for name in ["name", "color"] {
        let control = format!("{form} input[name={name}]");
        fill(&mut browser, &control, &format!("my {name}"));
    }
    press(&mut browser, "client-form-submit");
    browser.shows("I noted: {\"color\":\"my color\",\"name\":\"my name\"}");

    press(&mut browser, "new-chat");
    browser.until(&format!(
        "location.pathname === '/' && {} === 0",
        count("message-user")
    ));
    open_agent(&mut browser, &served, "support");
    send_message(&mut browser, "refund me");
    browser.shows("Run refund?");
    press(&mut browser, "deny");
    fill(&mut browser, &named("deny-reason"), "too late");
    press(&mut browser, "deny-confirm");
    browser.shows("Denied by you: too late");
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
    browser.open(&format!("{}/?agent=%", served.url()));
    browser.until(&format!(
        "document.querySelector('{}')?.dataset.agent === 'a'",
        named("agent-picker")
    ));
    fill(&mut browser, &named("composer"), "hello");
    let send = format!("document.querySelector('{}')", named("send"));
    browser.value(&format!(
        "(() => {{ const send = {send}; send.click(); send.click(); }})()"
    ));
    browser.shows("Failed");
    browser.until(&format!("{} === 1", count("send")));
    let (_, sessions) = served.ask("/sessions", None, None).await;
    assert_eq!(sessions["total"], json!(1), "sent twice, started once");
    assert_eq!(browser.value(&count("run-ended")), json!(1));
    assert_eq!(browser.value(&count("message-user")), json!(1));
    // A missing session is reported too, and a new chat can be started.
    browser.open(&format!("{}/s/nobody", served.url()));
    browser.until(&format!("{} === 1", count("not-found")));
    assert_eq!(browser.value("window.wrong"), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_loads_nothing_external_and_cannot_be_framed() {
    let folder = Folder::empty();
    let served = Served::start(&folder, &["dev"]);
    let page = served.get("/").await.text().await.unwrap();
    assert!(!page.contains("://"), "it names an address: {page}");
    let files: Vec<&str> = page
        .split('"')
        .filter(|part| part.starts_with("/studio/"))
        .collect();
    assert_eq!(files.len(), 3, "{page}");
    let views = ["/", "/inbox", "/s/any"].map(|view| (view, "no-cache"));
    let kept = "public, max-age=31536000, immutable";
    let files = files.into_iter().map(|file| (file, kept));
    for (path, cache) in views.into_iter().chain(files) {
        let kind = match path.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some(_) => "image/svg+xml",
            None => "text/html; charset=utf-8",
        };
        let answer = served.get(path).await;
        assert_eq!(answer.status().as_u16(), 200, "{path}");
        assert_eq!(answer.headers()["content-type"], kind);
        assert_eq!(answer.headers()["cache-control"], cache, "{path}");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        let policy = answer.headers()["content-security-policy"]
            .to_str()
            .unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    assert_eq!(served.get("/studio/other.js").await.status().as_u16(), 404);
    // The production server has no page.
    let open = "[server]\nallow_unauthenticated = true\n";
    let folder = Folder::with(&config(open), r#"{ "default": [] }"#);
    let served = Served::start(&folder, &["serve"]);
    assert_eq!(served.get("/").await.status().as_u16(), 404);
}
