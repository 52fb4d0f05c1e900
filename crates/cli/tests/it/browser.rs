//! A headless browser, controlled over a pipe.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A script that runs in every page before its own scripts, and records errors.
const WITNESS: &str = "
    window.wrong = [];
    addEventListener('error', (event) => wrong.push(String(event.message)));
    addEventListener('unhandledrejection', (event) => wrong.push(String(event.reason)));
    addEventListener('securitypolicyviolation', (event) => wrong.push(event.violatedDirective));";

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    page: Option<String>,
    asked: u64,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads commands from file descriptor 3 and replies on 4.
        let script = "exec \"$0\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
                      --no-first-run --user-data-dir=\"$1\" --remote-debugging-pipe about:blank \
                      3<&0 4>&1 >/dev/null 2>&1 </dev/null";
        let mut child = Command::new("bash")
            .args(["-c", script])
            .arg(program)
            .arg(profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut browser = Self {
            to: child.stdin.take().unwrap(),
            from: BufReader::new(child.stdout.take().unwrap()),
            child,
            page: None,
            asked: 0,
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let page = browser.ask("Target.attachToTarget", &attach);
        browser.page = Some(page["sessionId"].as_str().unwrap().to_owned());
        browser.ask("Page.enable", &json!({}));
        let witness = json!({ "source": WITNESS });
        browser.ask("Page.addScriptToEvaluateOnNewDocument", &witness);
        browser
    }

    /// Opens a URL, and waits until it is loaded.
    pub(crate) fn open(&mut self, url: &str) {
        self.ask("Page.navigate", &json!({ "url": url }));
        self.event("Page.loadEventFired");
    }

    pub(crate) fn reload(&mut self) {
        self.ask("Page.reload", &json!({}));
        self.event("Page.loadEventFired");
    }

    /// Returns the value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let evaluate = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let answer = self.ask("Runtime.evaluate", &evaluate);
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page, up to a time limit.
    pub(crate) fn until(&mut self, expression: &str) {
        let wait = format!(
            "new Promise((seen, missing) => {{
                const look = () => {{ if ({expression}) {{ watch.disconnect(); seen(true); }} }};
                const watch = new MutationObserver(look);
                const everything = {{ subtree: true, childList: true, characterData: true, attributes: true }};
                watch.observe(document, everything);
                setTimeout(() => missing(document.body.innerText), 30000);
                look();
            }})"
        );
        self.value(&wait);
    }

    /// Waits until the page shows a text.
    pub(crate) fn shows(&mut self, text: &str) {
        let text = Value::from(text);
        self.until(&format!("document.body.innerText.includes({text})"));
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let mut request = json!({ "id": self.asked, "method": method, "params": parameters });
        if let Some(page) = &self.page {
            request["sessionId"] = Value::from(page.as_str());
        }
        self.to.write_all(request.to_string().as_bytes()).unwrap();
        self.to.write_all(b"\0").unwrap();
        self.to.flush().unwrap();
        loop {
            let answer = self.message();
            if answer["id"] == self.asked {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn event(&mut self, name: &str) {
        while self.message()["method"] != name {}
    }

    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser is gone");
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
