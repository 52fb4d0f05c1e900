//! Tests of what the page of `helix dev` shows to a user who decides, in a real browser.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::answered_elsewhere::{SHOWN, TRICKS, folder};
use crate::browser::Browser;
use crate::kit::{Folder, config};
use crate::page::{press, send_message};
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

impl QuestionPage {
    /// Sends a message to the only agent, and waits for this number of questions.
    fn with(folder: Folder, message: &str, questions: usize) -> Option<Self> {
        let chromium = programs::find("chromium")?;
        let served = Served::start(&folder, &["dev"]);
        let mut browser = Browser::start(&chromium);
        browser.open(served.url());
        browser.until("document.getElementById('agent').value");
        send_message(&mut browser, message);
        browser.until(&format!(
            "document.querySelectorAll('.card').length === {questions} && location.hash"
        ));
        let session = browser.value("location.hash.slice(1)");
        Some(Self {
            session: session.as_str().unwrap().to_owned(),
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
        if (String(path).startsWith('status')) return new Promise(() => {});
        window.fetch = real;
        return real(path, ...more);
    };
})()";

#[tokio::test(flavor = "multi_thread")]
async fn hidden_characters_are_shown_in_a_question_and_stay_in_their_bubble() {
    let folder = folder(TRICKS);
    let Some(mut asked) = QuestionPage::with(folder, "pay \u{202e}yllacitsafnatnaf", 1) else {
        return;
    };
    let card = asked.text_of(".card");
    assert!(card.contains(SHOWN), "{card}");
    let browser = &mut asked.browser;
    let marked = browser.value(
        "[...document.querySelectorAll('.card .hidden-character')].map((one) => one.textContent)",
    );
    assert_eq!(marked.as_array().unwrap().len(), 9, "{marked}");
    assert_eq!(marked[0], json!("\\u{202e}"));
    let colour =
        |selector: &str| format!("getComputedStyle(document.querySelector('{selector}')).color");
    let (plain, other) = (colour(".card pre"), colour(".card .hidden-character"));
    assert_ne!(browser.value(&plain), browser.value(&other));
    let order = format!("{DRAWN_IN_ORDER}(document.querySelector('.card'), '001')");
    assert_eq!(browser.value(&order), json!(true), "reordered");
    // The line about the call shows the same.
    let line = browser.value("document.querySelector('.tool pre').textContent");
    assert!(line.as_str().unwrap().contains(SHOWN), "{line}");

    // A message keeps its direction, and cannot affect the text outside of its bubble.
    let kept = browser.value("document.querySelector('.user').textContent.includes('\\u202e')");
    assert_eq!(kept, json!(true));
    for bubble in [".user", ".text"] {
        let isolated = browser.value(&format!(
            "(() => {{ const one = document.querySelector('{bubble}');
              return [one.dir, getComputedStyle(one).unicodeBidi]; }})()"
        ));
        assert_eq!(isolated, json!(["auto", "isolate"]), "{bubble}");
    }

    asked.deny("no\u{202e}pe\nApproved.").await;
    asked.browser.shows("Denied: no\\u{202e}pe\\u{a}Approved.");
    asked.nothing_went_wrong();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_title_of_a_question_comes_from_the_configuration() {
    let Some(mut asked) = QuestionPage::with(folder("ada"), "pay", 1) else {
        return;
    };
    let title = asked.text_of(".card strong");
    assert_eq!(title, "Run refund?");
    let about = asked.text_of(".card .about");
    assert_eq!(about, "Pays money back");

    // A form is named after its tool too, whatever title the model gives.
    let script = json!({ "default": [ { "tool_calls": [ { "id": "f", "name": "form",
        "arguments": { "title": "Your bank asks", "fields": ["pin"] } } ] } ] });
    let agent = "[agents.a]\nmodel = \"fast\"\ntools = [\"form\"]\n\
                 [tools.form]\nkind = \"client\"\ndescription = \"Asks the user\"\n";
    let folder = Folder::with(&config(agent), &script.to_string());
    let Some(mut asked) = QuestionPage::with(folder, "go", 1) else {
        return;
    };
    assert_eq!(asked.text_of(".card strong"), "Answer form");
    assert_eq!(asked.text_of(".card .about"), "Asks the user");
    let shown = asked.text_of(".card pre");
    assert!(shown.contains("\"title\": \"Your bank asks\""), "{shown}");
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
    let left = "document.querySelectorAll('.card, .decided button, .decided input').length";
    assert_eq!(asked.browser.value(left), json!(0));
    let decided = asked.text_of(".decided");
    for text in ["refund", "\"to\": \"ada\"", "Denied by bob: too much"] {
        assert!(decided.contains(text), "{text}: {decided}");
    }
    // Once, and also after a reload.
    asked.browser.reload();
    asked.browser.shows("Result: {\"error\"");
    let text = asked.text_of("#log");
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
    let find = "document.querySelector('.card[data-call$=\" pick\"] input')";
    asked.browser.value(&format!("{find}.value = 'red'"));
    asked.submit(&["pay", "--deny", "no", "--user", "bob"]);
    asked
        .browser
        .until("document.querySelectorAll('.card').length === 1");
    asked.browser.shows("Denied by bob: no");
    assert_eq!(asked.browser.value(&format!("{find}.value")), json!("red"));
    press(&mut asked.browser, "Send");
    asked.browser.shows("Chosen: red");
    let text = asked.text_of("#log");
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
    press(&mut asked.browser, "Approve");
    asked
        .browser
        .shows("Your answer came too late and was not used. Denied by bob: too much");
    let late = asked.text_of(".outcome");
    let expected = "Your answer came too late and was not used. Denied by bob: too much";
    assert_eq!(late, expected);
    asked.browser.shows("Result: {\"error\"");
    asked.nothing_went_wrong();
}

/// The time that is left for an answer is shown. An answer after the deadline is told to the agent.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_the_deadline_is_told_to_the_agent() {
    let script = r#"{ "default": [
        { "tool_calls": [ { "id": "c", "name": "color" } ] }, { "text": "I go on." } ] }"#;
    let agent = "[agents.a]\nmodel = \"fast\"\ntools = [\"color\"]\n[tools.color]\nkind = \"client\"\n\
                 deadline_ms = 2000\n";
    let folder = Folder::with(&config(agent), script);
    let Some(mut asked) = QuestionPage::with(folder, "go", 1) else {
        return;
    };
    asked.browser.value(UNAWARE);
    asked.browser.shows("left to answer");
    asked.browser.shows("The deadline has passed.");
    press(&mut asked.browser, "Send");
    asked.browser.shows(
        "Your answer came after the deadline. It was not used, and the agent is told about it.",
    );
    asked.browser.shows("I go on.");
    let path = format!("/sessions/{}/messages", asked.session);
    let (_, messages) = asked.served.ask(&path, None, None).await;
    let told = messages["messages"].as_array().unwrap().iter();
    let told = told.filter(|one| one["metadata"]["hidden"] == json!(true));
    assert_eq!(told.count(), 1, "{messages}");
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
    press(&mut asked.browser, "Approve");
    asked
        .browser
        .shows("Your answer came too late and was not used. No longer pending.");
    // The calls that are still pending are shown again.
    asked
        .browser
        .until("document.querySelectorAll('.card').length === 1");
    let errors = "document.querySelectorAll('.error').length";
    assert_eq!(asked.browser.value(errors), json!(0));
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
    browser.open(served.url());
    browser.until("document.getElementById('agent').value");
    send_message(&mut browser, "go");
    // There is nothing to stop before the server has responded.
    let early = "!location.hash && !document.getElementById('stop').hidden";
    assert_eq!(browser.value(early), json!(false));
    service.arrived().await;
    browser.shows("I knock.");
    browser.value(
        "const button = document.getElementById('stop');
         window.seen = [[button.textContent, button.disabled, button.hidden]];
         const note = () => seen.push([button.textContent, button.disabled, button.hidden]);
         const everything = { subtree: true, childList: true, attributes: true };
         new MutationObserver(note).observe(button, everything);
         const real = window.fetch;
         window.fetch = async (...asked) => {
             const answer = await real(...asked);
             document.body.dataset.stopped = answer.status;
             return answer;
         };
         button.click();",
    );
    // The stop request is stored, and the run continues until its call has ended.
    browser.until("document.body.dataset.stopped === '200'");
    open.notify_one();
    browser.shows("Stopped.");
    browser.until("document.getElementById('stop').hidden");
    let mut seen: Vec<Value> = browser.value("window.seen").as_array().unwrap().clone();
    seen.dedup();
    let expected = [
        json!(["Stop", false, false]),
        json!(["Stopping…", true, false]),
        json!(["Stop", false, true]),
    ];
    assert_eq!(seen, expected);
    assert_eq!(browser.value("window.wrong"), json!([]));
}
