//! A proxy that breaks connections when a test says so.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;

/// A TCP proxy on loopback in front of a server.
///
/// It passes everything on until it is told to cut connections, to refuse new ones, or to lose the answer to
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
    /// The answer to a request that contains these bytes is lost.
    marked: Mutex<Option<Vec<u8>>>,
    lost: AtomicUsize,
    connections: Mutex<Vec<Connection>>,
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
        *lock(&self.shared.marked) = Some(request.to_vec());
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
        let loses = Arc::new(AtomicBool::new(false));
        let (to_server, from_client) = (Arc::clone(self), Arc::clone(&loses));
        std::thread::spawn(move || to_server.pass_requests(asking, &from_client));
        let to_client = Arc::clone(self);
        std::thread::spawn(move || to_client.pass_answers(answering, &loses));
    }

    fn pass_requests(&self, (mut client, mut server): (TcpStream, TcpStream), loses: &AtomicBool) {
        let mut tail = Vec::new();
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            let read = bytes.get(..count).unwrap_or_default();
            self.look_for_mark(&mut tail, read, loses);
            if server.write_all(read).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    }

    /// Notes that the answer is to be lost if the request is the marked one, which may come in pieces.
    fn look_for_mark(&self, tail: &mut Vec<u8>, read: &[u8], loses: &AtomicBool) {
        let mut marked = lock(&self.marked);
        let Some(mark) = &*marked else {
            return;
        };
        tail.extend_from_slice(read);
        if tail.windows(mark.len()).any(|window| window == mark) {
            loses.store(true, Ordering::SeqCst);
            *marked = None;
            tail.clear();
        } else {
            tail.drain(..tail.len().saturating_sub(mark.len()));
        }
    }

    fn pass_answers(&self, (mut client, mut server): (TcpStream, TcpStream), loses: &AtomicBool) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = server.read(&mut bytes) {
            if loses.load(Ordering::SeqCst) {
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
