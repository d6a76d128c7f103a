//! A line-based server with a cache for each kind of object: a connection, a session that is kept
//! from one client to the next, and the requests of its history. `slabyard top PID` and `slabyard
//! list PID` show the caches while it runs.
//!
//! `cargo run --release -p slabyard --example server -- --seconds 60` serves clients of its own
//! on the loopback interface, and prints what its caches have each second and at the end. With
//! `--listen ADDRESS` it serves others as well.

use slabyard::typed::Kept;
use slabyard::{CacheBox, ObjectCache, ProcessYard};
use std::collections::VecDeque;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

static YARD: ProcessYard = ProcessYard::new();

/// What a client sent: the last few are kept with the connection.
struct Request {
    number: u64,
    line: String,
}

/// The buffers of a connection, which the next one takes over.
#[derive(Default)]
struct Session {
    reply: Vec<u8>,
    history: VecDeque<CacheBox<Request>>,
}

impl Session {
    fn reset(&mut self) {
        self.reply.clear();
        self.history.clear();
    }
}

/// One client.
struct Connection {
    stream: TcpStream,
    session: CacheBox<Session, Kept>,
}

struct Caches {
    connections: ObjectCache<Connection>,
    sessions: ObjectCache<Session, Kept>,
    requests: ObjectCache<Request>,
}

static CACHES: LazyLock<Caches> = LazyLock::new(|| {
    let sessions = ObjectCache::<Session>::builder("session").constructor(Session::default);
    Caches {
        connections: ObjectCache::new("connection", &YARD).expect("a cache of connections"),
        sessions: sessions.reset(Session::reset).create(&YARD).expect("a cache of sessions"),
        requests: ObjectCache::new("request", &YARD).expect("a cache of requests"),
    }
});

/// Requests that a connection remembers.
const HISTORY: usize = 16;

static SERVED: AtomicU64 = AtomicU64::new(0);
static ENDS: AtomicBool = AtomicBool::new(false);

/// Answers each line with its number and the longest of the last few.
fn serve(mut connection: CacheBox<Connection>) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.stream.try_clone()?);
    for number in 0.. {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            break;
        }
        let Connection { stream, session } = &mut *connection;
        let Session { reply, history } = &mut **session;
        if history.len() == HISTORY {
            history.pop_front();
        }
        history.push_back(CACHES.requests.alloc(Request { number, line }));
        let longest = history.iter().max_by_key(|request| request.line.len());
        reply.clear();
        if let Some(Request { number: which, line }) = longest.map(|request| &**request) {
            writeln!(reply, "{number} {which} {}", line.trim_end())?;
        }
        stream.write_all(reply)?;
        SERVED.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn accept(listener: TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        if ENDS.load(Ordering::Relaxed) {
            return;
        }
        let session = CACHES.sessions.take();
        let connection = CACHES.connections.alloc(Connection { stream, session });
        std::thread::spawn(move || serve(connection));
    }
}

/// A client: some lines, each of which must be answered as a server that remembers the last few does.
fn ask(address: std::net::SocketAddr, lines: u64) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let mut sent = VecDeque::new();
    for number in 0..lines {
        let line = "x".repeat(1 + (number * 7 % 50) as usize);
        writeln!(stream, "{line}")?;
        sent.push_back((number, line));
        if sent.len() > HISTORY {
            sent.pop_front();
        }
        let (which, longest) = sent.iter().max_by_key(|(_, line)| line.len()).expect("one line");
        let mut reply = String::new();
        replies.read_line(&mut reply)?;
        assert_eq!(reply.trim_end(), format!("{number} {which} {longest}"));
    }
    Ok(())
}

fn print() {
    let Caches { connections, sessions, requests } = &*CACHES;
    let count = |live: Option<u64>| live.map_or("?".into(), |live| live.to_string());
    println!(
        "{} requests served; live: {} connections, {} sessions, {} requests; {} KiB of slabs",
        SERVED.load(Ordering::Relaxed),
        count(connections.live()),
        count(sessions.live()),
        count(requests.live()),
        (connections.bytes() + sessions.bytes() + requests.bytes()) >> 10,
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut seconds, mut listen) = (3, "127.0.0.1:0".to_string());
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or("an option needs a value")?;
        match argument.as_str() {
            "--seconds" => seconds = value.parse()?,
            "--listen" => listen = value,
            _ => return Err(format!("{argument}: the options are --seconds and --listen").into()),
        }
    }
    let listener = TcpListener::bind(&listen)?;
    let address = listener.local_addr()?;
    println!("process {} listens on {address}", std::process::id());
    std::thread::spawn(move || accept(listener));
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let clients = (0..32).map(|n| std::thread::spawn(move || ask(address, 50 + n * 20)));
        for client in clients.collect::<Vec<_>>() {
            client.join().expect("right answers")?;
        }
        print();
        std::thread::sleep(Duration::from_millis(200));
    }
    ENDS.store(true, Ordering::Relaxed);
    // Threads that serve see the end of their clients.
    while CACHES.connections.live() != Some(0) {
        std::thread::sleep(Duration::from_millis(10));
    }
    CACHES.requests.shrink();
    print();
    Ok(())
}
