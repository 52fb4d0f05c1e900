use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Counts the questions that clients ask a PostgreSQL server: after each of them a client waits for an answer.
pub(crate) struct CountingProxy {
    pub(crate) port: u16,
    asked: Arc<AtomicUsize>,
    /// The bytes that the server answered.
    answered: Arc<AtomicUsize>,
    /// The statements that were sent.
    statements: Arc<Mutex<Vec<String>>>,
}

impl CountingProxy {
    pub(crate) fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(AtomicUsize::new(0));
        let statements = Arc::default();
        let answered = Arc::new(AtomicUsize::new(0));
        let (counted, recorded) = (Arc::clone(&asked), Arc::clone(&statements));
        let measured = Arc::clone(&answered);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let measured = Arc::clone(&measured);
                std::thread::spawn(move || answer(from, to, &measured));
                let (counted, recorded) = (Arc::clone(&counted), Arc::clone(&recorded));
                std::thread::spawn(move || pass(client, server, &counted, &recorded));
            }
        });
        Self {
            port,
            asked,
            answered,
            statements,
        }
    }

    /// The URL of the database behind it.
    pub(crate) fn url(&self) -> String {
        let port = self.port;
        format!("postgres://helix@127.0.0.1:{port}/postgres?sslmode=disable")
    }

    /// How many bytes the server answered so far.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    /// The statements that were sent so far.
    pub(crate) fn statements(&self) -> Vec<String> {
        self.statements.lock().unwrap().clone()
    }

    /// How many questions were asked so far.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Passes messages on, whole ones, until one side is gone. The first one of a connection has no kind.
fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    counted: &AtomicUsize,
    recorded: &Mutex<Vec<String>>,
) {
    let mut is_first = true;
    loop {
        let mut head = vec![0; if is_first { 4 } else { 5 }];
        if client.read_exact(&mut head).is_err() {
            return;
        }
        let length: [u8; 4] = head[head.len() - 4..].try_into().unwrap();
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap() - 4];
        if client.read_exact(&mut body).is_err() {
            return;
        }
        // `Sync` and `Query` end a question.
        if !is_first && matches!(head[0], b'S' | b'Q') {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        if !is_first && matches!(head[0], b'P' | b'Q') {
            // A statement that is parsed begins with its name, which ends with a zero.
            let name = body.iter().position(|byte| *byte == 0).unwrap();
            let text = if head[0] == b'P' {
                &body[name + 1..]
            } else {
                &body
            };
            let text = String::from_utf8_lossy(text).into_owned();
            recorded.lock().unwrap().push(text);
        }
        is_first = false;
        if server
            .write_all(&head)
            .and(server.write_all(&body))
            .is_err()
        {
            return;
        }
    }
}

/// Passes answers on until one side is gone.
fn answer(mut server: TcpStream, mut client: TcpStream, measured: &AtomicUsize) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = server.read(&mut bytes) {
        measured.fetch_add(count, Ordering::SeqCst);
        if client.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}
