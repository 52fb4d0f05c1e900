//! Tests that the commands in the documentation work as written.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::kit::Folder;
use crate::programs;

/// Returns the commands of a document, one for each line that is entered.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    let mut begun = String::new();
    for line in text.lines() {
        match (inside, line) {
            (false, "```sh") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match line.strip_suffix('\\') {
                Some(part) => begun.push_str(part),
                None => found.push(std::mem::take(&mut begun) + line),
            },
            _ => {}
        }
    }
    found
}

/// Returns a port that is probably free.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A user at a terminal, who opens further ones for servers.
struct Reader {
    folder: PathBuf,
    /// Values from earlier output, for later commands.
    noted: Vec<(&'static str, String)>,
    agents: Option<Server>,
    tools: Option<Server>,
}

/// A server in its own terminal.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reader {
    fn shell(&self, command: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_helix")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .current_dir(&self.folder)
            .env("PATH", format!("{}:{path}", binary.display()))
            .envs(self.noted.iter().map(|(name, value)| (name, value)))
            .env_remove("HELIX_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null());
        shell
    }

    /// Starts a server on a free port, and waits until it listens.
    fn serve(&self, command: &str, port: u16) -> Server {
        let mut shell = self.shell(&format!("exec {command} --listen 127.0.0.1:{port}"));
        let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let server = Server { child, port };
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.contains(&port.to_string()), "{command}: {line:?}");
        // Its further output is discarded, so that it does not block.
        std::thread::spawn(move || out.lines().for_each(drop));
        server
    }

    /// Notes the word that follows a text, if there is one.
    fn note(&mut self, name: &'static str, said: &str, after: &str) {
        if let Some((_, rest)) = said.split_once(after) {
            let word = rest.split(|c: char| c.is_whitespace() || c == '"').next();
            self.noted.retain(|(noted, _)| *noted != name);
            self.noted.push((name, word.unwrap().to_owned()));
        }
    }

    /// Runs a command; returns its exit code and output.
    fn types(&self, command: &str) -> (i32, String) {
        let port = self.agents.as_ref().map_or(0, |server| server.port);
        let command = command.replace("8787", &port.to_string());
        let output = self.shell(&command).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        (output.status.code().unwrap_or(-1), said)
    }
}

/// The expected exit code and output of each command of the quick start.
const QUICK_START: [(&str, i32, &str); 17] = [
    ("cargo build --release -p helix-agents-cli", 0, ""),
    ("export PATH=", 0, ""),
    ("helix dev", 0, ""),
    ("curl -s localhost:8787/start ", 0, "\"sessionId\":\"s1\""),
    ("curl -sN 'localhost:8787/sse", 0, "event: end"),
    (
        "helix init shop",
        0,
        "wrote shop/helix.toml and shop/script.json",
    ),
    ("cd shop", 0, ""),
    ("helix doctor", 1, "refund cannot be reached"),
    (
        "helix run helper \"What is the sum?\"",
        0,
        "(2 + 3) * 4 is 20.",
    ),
    ("helix example-tools", 0, ""),
    (
        "helix run helper \"Please refund my order\"",
        4,
        "helix submit r1 refund",
    ),
    ("helix pending", 0, "r1"),
    ("helix submit r1 refund --approve", 0, ""),
    ("helix resume r1", 0, "\"refundedCents\":1999"),
    ("helix serve", 0, ""),
    ("curl -s localhost:8787/start ", 0, "\"sessionId\":\"h1\""),
    ("curl -sN 'localhost:8787/sse", 0, "(2 + 3)"),
];

/// The expected results of each command of the page about people.
const PEOPLE: [(&str, i32, &str); 19] = [
    ("helix dev", 0, ""),
    (START, 0, "\"sessionId\":\"a1\""),
    (READ, 0, "\"suspended\":"),
    ("curl -s 'localhost:8787/status", 0, "\"approvalId\":"),
    (SUBMIT, 0, ACCEPTED),
    (READ, 0, "{\"refundedCents\":1999}"),
    (START, 0, "\"sessionId\":\"a2\""),
    (READ, 0, "\"suspended\":"),
    ("curl -s 'localhost:8787/status", 0, "\"approvalId\":"),
    (SUBMIT, 0, ACCEPTED),
    (READ, 0, "It was used."),
    (START, 0, "\"sessionId\":\"a3\""),
    (READ, 0, "\"suspended\":"),
    (SUBMIT, 0, ACCEPTED),
    (READ, 0, "\"color\":\"red\""),
    (START, 0, "\"sessionId\":\"a4\""),
    (READ, 0, "\"suspended\":"),
    (SUBMIT, 0, ACCEPTED),
    (READ, 0, "The window was closed."),
];
const START: &str = "curl -s localhost:8787/start ";
const READ: &str = "curl -sN 'localhost:8787/sse";
const SUBMIT: &str = "curl -s localhost:8787/submit-tool-result ";
const ACCEPTED: &str = "{\"status\":\"accepted\",\"continuation\":\"new_run\"}";

/// A new user types the commands of the quick start in order; only the ports differ.
#[test]
fn the_quick_start_works_as_written() {
    walk("docs/quick-start.md", &QUICK_START);
}

#[test]
fn every_way_to_answer_works_as_written() {
    walk("docs/people-in-the-loop.md", &PEOPLE);
}

/// Types the commands of a document in order.
fn walk(document: &str, expected: &[(&str, i32, &str)]) {
    if programs::find("curl").is_none() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(document)).unwrap();
    let commands = commands(&text);
    assert_eq!(commands.len(), expected.len(), "{commands:#?}");
    let folder = Folder::empty();
    let mut reader = Reader {
        folder: folder.path().to_owned(),
        noted: Vec::new(),
        agents: None,
        tools: None,
    };
    for (command, (begin, code, says)) in commands.iter().zip(expected) {
        assert!(command.starts_with(begin), "{command:?} is not {begin:?}");
        match command.as_str() {
            // The shell finds the binary of this test.
            it if it.starts_with("cargo build") || it.starts_with("export PATH=") => {}
            "helix dev" | "helix serve" => {
                reader.agents = None;
                reader.agents = Some(reader.serve(command, port()));
            }
            "helix example-tools" => {
                let config = reader.folder.join("helix.toml");
                let written = std::fs::read_to_string(&config).unwrap();
                let port = port();
                std::fs::write(&config, written.replace("9100", &port.to_string())).unwrap();
                reader.tools = Some(reader.serve(command, port));
            }
            "cd shop" => reader.folder.push("shop"),
            command => {
                let (ended, said) = reader.types(command);
                assert_eq!(ended, *code, "{command}: {said}");
                assert!(said.contains(says), "{command}: {said}");
                reader.note("TOKEN", &said, "shown only once: ");
                reader.note("APPROVAL", &said, "\"approvalId\":\"");
            }
        }
    }
}

/// `helix init` replaces no files, and writes a valid configuration.
#[test]
fn init_replaces_no_files() {
    let folder = Folder::empty();
    let did = folder.helix(&["init"]).ends(0);
    assert!(did.out.contains("next: helix run helper"), "{}", did.out);
    let before = std::fs::read(folder.path().join("helix.toml")).unwrap();
    let did = folder.helix(&["init"]).ends(2);
    assert!(did.err.contains("is not replaced"), "{}", did.err);
    let after = std::fs::read(folder.path().join("helix.toml")).unwrap();
    assert_eq!(before, after);
    let digests = ["a", "b"].map(|name| {
        folder.helix(&["init", name]).ends(0);
        std::fs::read_to_string(folder.path().join(name).join("helix.toml")).unwrap()
    });
    assert_ne!(digests[0], digests[1], "each has a token of its own");
}
