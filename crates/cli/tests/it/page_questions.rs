//! Tests of what the page of `helix dev` shows to a user who decides, in a real browser.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::answered_elsewhere::{SHOWN, TRICKS, folder};
use crate::browser::Browser;
use crate::kit::{Folder, config};
use crate::page::{conversation, count, fill, named, open_agent, press, send_message, session};
use crate::programs;
use crate::service::{Reply, Service};
use crate::serving::Served;

/// A page that shows pending calls.
struct QuestionPage {
    folder: Folder,
    served: Served,
    browser: Browser,
    session: String,
}

/// Everything that asks for an answer.
const CARDS: &str = "[data-testid=approval-card], [data-testid=client-form]";
const APPROVAL: &str = "[data-testid=approval-card]";
const TOOL: &str = "[data-testid=tool-card]";

fn cards() -> String {
    format!("document.querySelectorAll('{CARDS}').length")
}

impl QuestionPage {
    /// Sends a message to the only agent, and waits for this number of questions.
    fn with(folder: Folder, message: &str, questions: usize) -> Option<Self> {
        let chromium = programs::find("chromium")?;
        let served = Served::start(&folder, &["dev"]);
        let mut browser = Browser::start(&chromium);
        browser.open(served.url());
        browser.until(&format!("{} === 1", count("agent-picker")));
        send_message(&mut browser, message);
        browser.until(&format!("{} === {questions}", cards()));
        let session = session(&mut browser);
        Some(Self {
            session,
            folder,
            served,
            browser,
        })
    }

    /// Answers a call with the command line.
    fn submit(&self, arguments: &[&str]) {
        let all = [&["submit", self.session.as_str()], arguments].concat();
        self.folder.helix(&all).ends(0);
    }

    /// Answers a call over HTTP, so that the page does not know.
    async fn deny(&self, reason: &str) {
        let path = format!("/status?sessionId={}", self.session);
        let (_, now) = self.served.ask(&path, None, None).await;
        let call = &now["pending"][0];
        let body = json!({
            "sessionId": self.session, "kind": "approval-response", "toolCallId": call["toolCallId"],
            "approvalId": call["approvalId"], "approved": false, "reason": reason,
        });
        let (status, _) = self
            .served
            .ask("/submit-tool-result", Some(body), None)
            .await;
        assert_eq!(status, 200);
    }

    fn text_of(&mut self, selector: &str) -> String {
        let selector = json!(selector);
        let text = format!("document.querySelector({selector}).innerText");
        self.browser.value(&text).as_str().unwrap().to_owned()
    }

    fn nothing_went_wrong(&mut self) {
        assert_eq!(self.browser.value("window.wrong"), json!([]));
    }
}

/// Which characters of an element are drawn to the right of the one before.
const DRAWN_IN_ORDER: &str = "((element, part) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()); ) {
        const begin = node.data.indexOf(part);
        if (begin < 0) continue;
        const place = (at) => {
            const range = document.createRange();
            range.setStart(node, at);
            range.setEnd(node, at + 1);
            return range.getBoundingClientRect().left;
        };
        return place(begin) < place(begin + part.length - 1);
    }
    return 'not there';
})";

/// Keeps the page from updating its session until a button is pressed.
const UNAWARE: &str = "(() => {
    const real = window.fetch;
    window.fetch = (path, ...more) => {
        if (String(path).startsWith('/status')) return new Promise(() => {});
        if (String(path).startsWith('/submit')) window.fetch = real;
        return real(path, ...more);
    };
})()";

#[tokio::test(flavor = "multi_thread")]
async fn hidden_characters_are_shown_in_a_question_and_stay_in_their_bubble() {
    let folder = folder(TRICKS);
    let Some(mut asked) = QuestionPage::with(folder, "pay \u{202e}yllacitsafnatnaf", 1) else {
        return;
    };
    let card = asked.text_of(APPROVAL);
    assert!(card.contains(SHOWN), "{card}");
    let browser = &mut asked.browser;
    let hidden = format!("{APPROVAL} [data-hidden-character]");
    let marked = browser.value(&format!(
        "[...document.querySelectorAll('{hidden}')].map((one) => one.textContent)"
    ));
    assert_eq!(marked.as_array().unwrap().len(), 9, "{marked}");
    assert_eq!(marked[0], json!("\\u{202e}"));
    let colour =
        |selector: &str| format!("getComputedStyle(document.querySelector('{selector}')).color");
    let (plain, other) = (colour(&format!("{APPROVAL} td")), colour(&hidden));
    assert_ne!(browser.value(&plain), browser.value(&other));
    let order = format!("{DRAWN_IN_ORDER}(document.querySelector('{APPROVAL}'), '001')");
    assert_eq!(browser.value(&order), json!(true), "reordered");

    // A message keeps its direction, and cannot affect the text outside of its bubble.
    let kept =
        "document.querySelector('[data-testid=message-user]').textContent.includes('\\u202e')";
    assert_eq!(browser.value(kept), json!(true));
    for bubble in ["message-user] p", "message-assistant] .prose"] {
        let isolated = browser.value(&format!(
            "(() => {{ const one = document.querySelector('[data-testid={bubble}');
              return [one.dir, getComputedStyle(one).unicodeBidi]; }})()"
        ));
        assert_eq!(isolated, json!(["auto", "isolate"]), "{bubble}");
    }

    asked.deny("no\u{202e}pe\nApproved.").await;
    asked.browser.shows(": no\\u{202e}pe\\u{a}Approved.");
    // The line about the call shows the same characters.
    let line = asked.text_of(TOOL);
    assert!(line.contains(SHOWN), "{line}");
    asked.nothing_went_wrong();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_title_of_a_question_comes_from_the_configuration() {
    let Some(mut asked) = QuestionPage::with(folder("ada"), "pay", 1) else {
        return;
    };
    let title = asked.text_of(&format!("{APPROVAL} h2"));
    assert_eq!(title, "Run refund?");
    let about = asked.text_of(&format!("{APPROVAL} p"));
    assert_eq!(about, "Pays money back");

    // A form is named after its tool too; the title that the model gives stands below, as its words.
    let script = json!({ "default": [ { "tool_calls": [ { "id": "f", "name": "form",
        "arguments": { "title": "Your bank asks", "fields": ["pin"] } } ] } ] });
    let agent = "[agents.a]\nmodel = \"fast\"\ntools = [\"form\"]\n\
                 [tools.form]\nkind = \"client\"\ndescription = \"Asks the user\"\n";
    let folder = Folder::with(&config(agent), &script.to_string());
    let Some(mut asked) = QuestionPage::with(folder, "go", 1) else {
        return;
    };
    let form = named("client-form");
    assert_eq!(asked.text_of(&format!("{form} h2")), "Answer form");
    assert_eq!(asked.text_of(&format!("{form} p")), "Asks the user");
    let said = asked.text_of(&format!("{form} blockquote"));
    assert_eq!(said, "Your bank asks");
    asked.nothing_went_wrong();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_answered_elsewhere_closes_itself() {
    let Some(mut asked) = QuestionPage::with(folder("ada"), "pay", 1) else {
        return;
    };
    asked.submit(&["pay", "--deny", "too much", "--user", "bob"]);
    asked.browser.shows("Denied by bob: too much");
    asked.browser.shows("Result: {\"error\"");
    assert_eq!(asked.browser.value(&cards()), json!(0));
    let decided = asked.text_of(TOOL);
    for text in ["refund", "to: ada", "Denied by bob: too much"] {
        assert!(decided.contains(text), "{text}: {decided}");
    }
    // Once, and also after a reload.
    asked.browser.reload();
    asked.browser.shows("Result: {\"error\"");
    asked.browser.shows("Denied by bob: too much");
    let text = conversation(&mut asked.browser);
    assert_eq!(text.matches("Denied by bob: too much").count(), 1, "{text}");
    asked.nothing_went_wrong();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_questions_closes_itself_and_the_other_stays() {
    let script = json!({ "default": [
        { "tool_calls": [ { "id": "pay", "name": "refund" }, { "id": "pick", "name": "color" } ] },
        { "text": "Chosen: {{tool_result:pick}}" } ] });
    let agent = "[agents.a]\nmodel = \"fast\"\ntools = [\"refund\", \"color\"]\n\
                 [tools.color]\nkind = \"client\"\n\
                 [tools.refund]\nkind = \"http\"\nurl = \"http://127.0.0.1:9/\"\nrequire_approval = true\n";
    let folder = Folder::with(&config(agent), &script.to_string());
    let Some(mut asked) = QuestionPage::with(folder, "go", 2) else {
        return;
    };
    // Text that is typed into the other question is kept.
    let field = format!("{} textarea", named("client-form"));
    fill(&mut asked.browser, &field, "\"red\"");
    asked.submit(&["pay", "--deny", "no", "--user", "bob"]);
    asked.browser.until(&format!("{} === 1", cards()));
    asked.browser.shows("Denied by bob: no");
    let kept = format!("document.querySelector('{field}').value");
    assert_eq!(asked.browser.value(&kept), json!("\"red\""));
    press(&mut asked.browser, "client-form-submit");
    asked.browser.shows("Chosen: red");
    let text = conversation(&mut asked.browser);
    assert_eq!(text.matches("Denied by bob: no").count(), 1, "{text}");
    asked.nothing_went_wrong();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_shows_the_earlier_decision() {
    let Some(mut asked) = QuestionPage::with(folder("ada"), "pay", 1) else {
        return;
    };
    asked.browser.value(UNAWARE);
    asked.submit(&["pay", "--deny", "too much", "--user", "bob"]);
    press(&mut asked.browser, "approve");
    asked
        .browser
        .shows("Your answer came too late and was not used. Denied by bob: too much");
    asked.browser.shows("Result: {\"error\"");
    let text = conversation(&mut asked.browser);
    assert_eq!(text.matches("came too late").count(), 1, "{text}");
    asked.nothing_went_wrong();
}

/// The time that is left for an answer is shown. After the deadline nothing can be pressed.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_the_deadline_cannot_be_given() {
    let script = r#"{ "default": [
        { "tool_calls": [ { "id": "c", "name": "color" } ] }, { "text": "I go on." } ] }"#;
    let agent = "[agents.a]\nmodel = \"fast\"\ntools = [\"color\"]\n[tools.color]\nkind = \"client\"\n\
                 deadline_ms = 2000\n";
    let folder = Folder::with(&config(agent), script);
    let Some(mut asked) = QuestionPage::with(folder, "go", 1) else {
        return;
    };
    // The page does not hear that the agent goes on.
    asked.browser.value(UNAWARE);
    asked
        .browser
        .until(&format!("{} === 1", count("time-left")));
    asked.browser.shows("The time to answer has passed.");
    let left = format!(
        "{} + {}",
        count("client-form-submit"),
        count("client-form-decline")
    );
    assert_eq!(asked.browser.value(&left), json!(0));
    asked.browser.reload();
    asked.browser.shows("I go on.");
    asked.nothing_went_wrong();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_to_an_unknown_call_is_reported() {
    let Some(mut asked) = QuestionPage::with(folder("ada"), "pay", 1) else {
        return;
    };
    // The answer is for a call that the server does not know.
    asked.browser.value(
        "(() => {
            const real = window.fetch;
            window.fetch = (path, init) => {
                const body = init?.body?.replace('\"toolCallId\":\"pay\"', '\"toolCallId\":\"gone\"');
                return real(path, init && { ...init, body });
            };
        })()",
    );
    press(&mut asked.browser, "approve");
    asked
        .browser
        .shows("Your answer came too late and was not used. No longer pending");
    // The calls that are still pending are shown again.
    asked.browser.until(&format!("{} === 1", cards()));
    asked.nothing_went_wrong();
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_shows_that_it_stops() {
    let Some(chromium) = programs::find("chromium") else {
        return;
    };
    let open = Arc::new(Notify::new());
    let service = Service::that(vec![Reply::Waits(Arc::clone(&open))]).await;
    let script = r#"{ "default": [ { "text": "I knock.", "tool_calls": [ { "name": "door" } ] }, { "text": "It opened." } ] }"#;
    let agent = format!(
        "[agents.a]\nmodel = \"fast\"\ntools = [\"door\"]\n[tools.door]\nkind = \"http\"\nurl = \"http://{}/\"\n",
        service.address
    );
    let folder = Folder::with(&config(&agent), script);
    let served = Served::start(&folder, &["dev"]);
    let mut browser = Browser::start(&chromium);
    open_agent(&mut browser, &served, "a");
    send_message(&mut browser, "go");
    service.arrived().await;
    browser.shows("I knock.");
    let button = format!("document.querySelector('{}')", named("stop"));
    browser.value(&format!(
        "(() => {{
            window.seen = [];
            const note = () => {{ const button = {button}; seen.push(button ? [button.innerText, button.disabled] : null); }};
            note();
            const everything = {{ subtree: true, childList: true, attributes: true, characterData: true }};
            new MutationObserver(note).observe(document.body, everything);
            const real = window.fetch;
            window.fetch = async (...asked) => {{
                const answer = await real(...asked);
                if (String(asked[0]).endsWith('/interrupt')) document.body.dataset.stopped = answer.status;
                return answer;
            }};
            {button}.click();
        }})()"
    ));
    // The stop request is stored, and the run continues until its call has ended.
    browser.until("document.body.dataset.stopped === '200'");
    open.notify_one();
    browser.shows("Stopped");
    browser.until(&format!("{} === 0", count("stop")));
    let mut seen: Vec<Value> = browser.value("window.seen").as_array().unwrap().clone();
    seen.dedup();
    let expected = [
        json!(["Stop", false]),
        json!(["Stopping…", true]),
        json!(null),
    ];
    assert_eq!(seen, expected);
    assert_eq!(browser.value("window.wrong"), json!([]));
}
