//! A proxy that breaks connections when a test says so.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;

/// A TCP proxy on loopback in front of a server.
///
/// It passes everything on until it is told to cut connections, to refuse new ones, or to lose or hold the answer to
/// something that a client sends: the server has then done what it was asked, and the client does not know.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: u16,
    is_refusing: AtomicBool,
    /// The answer to a request that contains these bytes is not passed on.
    marked: Mutex<Option<Mark>>,
    lost: AtomicUsize,
    held: AtomicUsize,
    asked: AtomicUsize,
    is_silent: AtomicBool,
    connections: Mutex<Vec<Connection>>,
}

/// A request whose answer is not passed on.
#[derive(Debug)]
struct Mark {
    request: Vec<u8>,
    /// Whether the connection stays open, with nothing more to hear on it.
    is_held: bool,
}

/// What becomes of the answers on a connection.
#[derive(Debug, Default)]
struct Answers {
    lost: AtomicBool,
    held: AtomicBool,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    fn cut(&self) {
        // One that is closed already needs nothing.
        for side in [&self.client, &self.server] {
            let _ = side.shutdown(Shutdown::Both);
        }
    }
}

impl Proxy {
    /// Starts a proxy in front of a server on this port of loopback.
    ///
    /// # Errors
    /// If it cannot listen.
    pub fn start(target: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            target,
            is_refusing: AtomicBool::new(false),
            marked: Mutex::new(None),
            lost: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            is_silent: AtomicBool::new(false),
            connections: Mutex::new(Vec::new()),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                accepting.connect(&client);
            }
        });
        Ok(Self { port, shared })
    }

    /// Returns the port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for connection in lock(&self.shared.connections).drain(..) {
            connection.cut();
        }
    }

    /// Closes new connections at once, and cuts the others; or accepts new ones again.
    pub fn refuse(&self, refuse: bool) {
        self.shared.is_refusing.store(refuse, Ordering::SeqCst);
        if refuse {
            self.cut();
        }
    }

    /// Cuts the next connection whose client sends these bytes, after the server has answered and before the
    /// client has the answer.
    pub fn lose_answer_to(&self, request: &[u8]) {
        self.mark(request, false);
    }

    /// Passes nothing on any more to the next client that sends these bytes, once the server has answered. The
    /// connection stays open.
    pub fn hold_answer_to(&self, request: &[u8]) {
        self.mark(request, true);
    }

    fn mark(&self, request: &[u8], is_held: bool) {
        let request = request.to_vec();
        *lock(&self.shared.marked) = Some(Mark { request, is_held });
    }

    /// Takes connections and requests, and passes no answer on while it is silent.
    pub fn silence(&self, is_silent: bool) {
        self.shared.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// Returns how often something came from a client.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Returns how many answers are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Returns how many answers were lost.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, client: &TcpStream) {
        if self.is_refusing.load(Ordering::SeqCst) {
            return;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.target)) else {
            return;
        };
        let copies = || Some((client.try_clone().ok()?, server.try_clone().ok()?));
        let (Some(kept), Some(asking), Some(answering)) = (copies(), copies(), copies()) else {
            return;
        };
        for side in [client, &server] {
            let _ = side.set_nodelay(true);
        }
        lock(&self.connections).push(Connection {
            client: kept.0,
            server: kept.1,
        });
        let fate = Arc::new(Answers::default());
        let (to_server, from_client) = (Arc::clone(self), Arc::clone(&fate));
        std::thread::spawn(move || to_server.pass_requests(asking, &from_client));
        let to_client = Arc::clone(self);
        std::thread::spawn(move || to_client.pass_answers(answering, &fate));
    }

    fn pass_requests(&self, (mut client, mut server): (TcpStream, TcpStream), fate: &Answers) {
        let mut tail = Vec::new();
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let read = bytes.get(..count).unwrap_or_default();
            self.look_for_mark(&mut tail, read, fate);
            if server.write_all(read).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    }

    /// Notes that the answer is not to be passed on if the request is the marked one, which may come in pieces.
    fn look_for_mark(&self, tail: &mut Vec<u8>, read: &[u8], fate: &Answers) {
        let mut marked = lock(&self.marked);
        let Some(Mark { request, is_held }) = &*marked else {
            return;
        };
        tail.extend_from_slice(read);
        if tail.windows(request.len()).any(|window| window == request) {
            let answers = if *is_held { &fate.held } else { &fate.lost };
            answers.store(true, Ordering::SeqCst);
            *marked = None;
            tail.clear();
        } else {
            tail.drain(..tail.len().saturating_sub(request.len()));
        }
    }

    fn pass_answers(&self, (mut client, mut server): (TcpStream, TcpStream), fate: &Answers) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = server.read(&mut bytes) {
            if fate.held.load(Ordering::SeqCst) {
                self.held.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            if self.is_silent.load(Ordering::SeqCst) {
                continue;
            }
            if fate.lost.load(Ordering::SeqCst) {
                self.lost.fetch_add(1, Ordering::SeqCst);
                let _ = server.shutdown(Shutdown::Both);
                break;
            }
            let read = bytes.get(..count).unwrap_or_default();
            if client.write_all(read).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
