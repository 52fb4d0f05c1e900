//! The mock server in a process of its own, so that neither its memory nor its threads count as a
//! client's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use helix_agents_mock_llm::MockLlm;

use crate::measure::{median, print_figure};
use crate::sqlite::Outcome;

/// The server; it ends with this value, or when this process ends in any other way.
pub(crate) struct MockProcess {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl MockProcess {
    pub(crate) fn start() -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("mock-llm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse()?;
        Ok(Self { process, address })
    }

    /// The time that the server has computed so far, in ms.
    pub(crate) fn busy_ms(&self) -> Outcome<f64> {
        let mut nanoseconds = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let times = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let computed = times.split_whitespace().next().ok_or("no time")?;
            nanoseconds += computed.parse::<u64>()?;
        }
        Ok(nanoseconds as f64 / 1e6)
    }
}

impl Drop for MockProcess {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// The process of the server: prints its address, and ends when its input ends.
pub(crate) fn serve() -> Outcome<()> {
    let server = MockLlm::spawn()?;
    println!("{}", server.address());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Prints what the server can do by itself, so that a reader sees that it is not what limits the
/// other figures. The client sends prepared bytes and does not look at what it gets.
pub(crate) fn measure_alone(address: SocketAddr) -> Outcome<()> {
    let one_by_one = TightClient::connect(address, "text", 1)?.rate(4_000)?;
    let in_batches = TightClient::connect(address, "text", 32)?.rate(32_000)?;
    let deltas = TightClient::connect(address, "deltas-1000", 1)?.rate(400)? * 1_000.0;
    print_figure(&format!(
        "the mock alone, streamed replies on one connection: {one_by_one:.0} requests/s one by one, \
         {in_batches:.0} requests/s in batches of 32, {deltas:.0} deltas/s"
    ));
    Ok(())
}

/// A connection that sends the same requests again and again.
struct TightClient {
    connection: TcpStream,
    requests: Vec<u8>,
    batch: usize,
    /// Room for the replies to one batch.
    replies: Vec<u8>,
}

impl TightClient {
    fn connect(address: SocketAddr, model: &str, batch: usize) -> Outcome<Self> {
        let body = format!(
            r#"{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"Add."}}]}}"#
        );
        let length = body.len();
        let request =
            format!("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}");
        let mut connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        // The first reply tells how long each of them is.
        connection.write_all(request.as_bytes())?;
        let mut reply = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        while !reply.ends_with(b"\r\n0\r\n\r\n") {
            let received = connection.read(&mut buffer)?;
            reply.extend_from_slice(buffer.get(..received).unwrap_or_default());
        }
        Ok(Self {
            connection,
            requests: request.repeat(batch).into_bytes(),
            batch,
            replies: vec![0; reply.len() * batch],
        })
    }

    /// Returns requests per second.
    fn rate(&mut self, requests: usize) -> Outcome<f64> {
        let mut rates = Vec::new();
        for _ in 0..5 {
            let began = Instant::now();
            for _ in 0..requests / self.batch {
                self.connection.write_all(&self.requests)?;
                self.connection.read_exact(&mut self.replies)?;
            }
            rates.push(requests as f64 / began.elapsed().as_secs_f64());
        }
        Ok(median(rates))
    }
}
