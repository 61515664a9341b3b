//! A proxy between a node and one of its servers, which loses messages as a test wants.
//!
//! It forwards bytes. For NATS, it parses just enough of the protocol to recognise a publish to a log and the answer to
//! it.

use std::{
    collections::HashSet,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
};

/// How many messages of a connection are held back at most before its sender has to wait.
const MOST_KEPT_BACK: usize = 1024;

/// A running proxy; it ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    /// The address of the proxy.
    pub address: String,
    rules: Arc<Rules>,
    accepting: AbortHandle,
}

/// What the proxy forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traffic {
    Open,
    /// Bytes are held back.
    Silent,
    /// Connections are closed, and new ones at once.
    Cut,
}

#[derive(Debug)]
struct Rules {
    traffic: watch::Sender<Traffic>,
    publishes: Lost,
    answers: Lost,
    /// The inboxes of the answers that will be lost.
    inboxes: Mutex<HashSet<String>>,
    /// How many publishes to a log have arrived, including lost ones.
    arrived: AtomicUsize,
    /// How many of them are held back.
    waiting: AtomicUsize,
}

/// How many messages of a kind have to be lost, and how many were.
#[derive(Debug, Default)]
struct Lost {
    left: AtomicUsize,
    so_far: AtomicUsize,
}

impl Lost {
    fn take(&self) -> bool {
        let taken = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if taken {
            self.so_far.fetch_add(1, Ordering::SeqCst);
        }
        taken
    }
}

impl Proxy {
    /// Starts a proxy to this `host:port`.
    pub async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are free ports");
        let address = listener.local_addr().expect("it listens").to_string();
        let rules = Arc::new(Rules {
            traffic: watch::Sender::new(Traffic::Open),
            publishes: Lost::default(),
            answers: Lost::default(),
            inboxes: Mutex::default(),
            arrived: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, server.to_owned(), rules.clone())).abort_handle();
        Self { address, rules, accepting }
    }

    /// Starts a proxy to the server of a URL, and returns it with the URL through it.
    pub async fn before(url: &str) -> (Self, String) {
        let address = url.split("://").nth(1).and_then(|rest| rest.rsplit('@').next()).expect("it is a URL");
        let address = address.split('/').next().expect("it has an address");
        let proxy = Self::start(address).await;
        let through = url.replace(address, &proxy.address);
        (proxy, through)
    }

    /// Loses the next publishes to a log: the server never gets them.
    pub fn lose_publishes(&self, number: usize) {
        self.rules.publishes.left.fetch_add(number, Ordering::SeqCst);
    }

    /// Loses the answers to the next publishes to a log, which the server gets.
    pub fn lose_answers(&self, number: usize) {
        self.rules.answers.left.fetch_add(number, Ordering::SeqCst);
    }

    /// Returns how many publishes, and how many answers to others, were lost so far.
    pub fn lost(&self) -> (usize, usize) {
        let of = |lost: &Lost| lost.so_far.load(Ordering::SeqCst);
        (of(&self.rules.publishes), of(&self.rules.answers))
    }

    /// Returns how many publishes to a log have arrived.
    pub fn arrived(&self) -> usize {
        self.rules.arrived.load(Ordering::SeqCst)
    }

    /// Returns how many publishes to a log are held back.
    pub fn waiting(&self) -> usize {
        self.rules.waiting.load(Ordering::SeqCst)
    }

    /// Stops forwarding, while connections stay open.
    pub fn silence(&self) {
        self.rules.traffic.send_replace(Traffic::Silent);
    }

    /// Closes all connections, and refuses new ones.
    pub fn cut(&self) {
        self.rules.traffic.send_replace(Traffic::Cut);
    }

    /// Forwards everything again, including what was held back.
    pub fn open(&self) {
        self.rules.traffic.send_replace(Traffic::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: String, rules: Arc<Rules>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (server, rules) = (server.clone(), rules.clone());
        connections.spawn(async move {
            let mut traffic = rules.traffic.subscribe();
            tokio::select! {
                _ = traffic.wait_for(|traffic| *traffic == Traffic::Cut) => {}
                _ = connect(client, &server, &rules) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(client: TcpStream, server: &str, rules: &Arc<Rules>) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    // The server speaks first with NATS, the client with Postgres: the first bytes show which protocol this is.
    let mut from_server = BufReader::new(from_server);
    let mut from_client = BufReader::new(from_client);
    let speaks_nats = tokio::select! {
        first = from_server.fill_buf() => first?.starts_with(b"INFO "),
        first = from_client.fill_buf() => { first?; false }
    };
    if speaks_nats {
        tokio::select! {
            ended = pass_messages(from_client, to_server, rules) => ended,
            ended = pass_messages(from_server, to_client, rules) => ended,
        }
    } else {
        tokio::select! {
            ended = pass_bytes(from_client, to_server, rules) => ended,
            ended = pass_bytes(from_server, to_client, rules) => ended,
        }
    }
}

async fn pass_bytes(mut from: BufReader<OwnedReadHalf>, mut to: OwnedWriteHalf, rules: &Rules) -> io::Result<()> {
    loop {
        let bytes = from.fill_buf().await?.to_vec();
        if bytes.is_empty() {
            return Ok(());
        }
        rules.opened().await;
        to.write_all(&bytes).await?;
        from.consume(bytes.len());
    }
}

/// A message of NATS.
struct Message {
    /// The first line.
    line: String,
    /// The complete message.
    bytes: Vec<u8>,
}

/// Forwards messages. They are read even while nothing is forwarded, so that a publish is counted that waits after
/// another.
async fn pass_messages(from: BufReader<OwnedReadHalf>, to: OwnedWriteHalf, rules: &Rules) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel(MOST_KEPT_BACK);
    tokio::try_join!(read_messages(from, sender, rules), write_messages(receiver, to, rules))?;
    Ok(())
}

async fn read_messages(
    mut from: BufReader<OwnedReadHalf>,
    messages: mpsc::Sender<Message>,
    rules: &Rules,
) -> io::Result<()> {
    loop {
        let mut bytes = vec![];
        if from.read_until(b'\n', &mut bytes).await? == 0 {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&bytes).into_owned();
        let words: Vec<&str> = line.split_whitespace().collect();
        let has_payload = matches!(words.first(), Some(&("PUB" | "HPUB" | "MSG" | "HMSG")));
        if has_payload {
            let length: usize = words.last().and_then(|length| length.parse().ok()).unwrap_or_default();
            let head = bytes.len();
            bytes.resize(head + length + 2, 0);
            from.read_exact(&mut bytes[head..]).await?;
        }
        rules.waiting.fetch_add(usize::from(is_publish(&words)), Ordering::SeqCst);
        if messages.send(Message { line, bytes }).await.is_err() {
            return Ok(());
        }
    }
}

async fn write_messages(
    mut messages: mpsc::Receiver<Message>,
    mut to: OwnedWriteHalf,
    rules: &Rules,
) -> io::Result<()> {
    while let Some(Message { line, bytes }) = messages.recv().await {
        let words: Vec<&str> = line.split_whitespace().collect();
        rules.opened().await;
        rules.waiting.fetch_sub(usize::from(is_publish(&words)), Ordering::SeqCst);
        if !rules.is_lost(&words) {
            to.write_all(&bytes).await?;
        }
    }
    Ok(())
}

fn is_publish(words: &[&str]) -> bool {
    matches!(words, ["PUB" | "HPUB", subject, ..] if subject.starts_with("events."))
}

impl Rules {
    async fn opened(&self) {
        let _ = self.traffic.subscribe().wait_for(|traffic| *traffic == Traffic::Open).await;
    }

    /// Whether this message has to be lost, by the words of its first line.
    fn is_lost(&self, words: &[&str]) -> bool {
        let mut inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        match words {
            [_, _, inbox, ..] if is_publish(words) => {
                self.arrived.fetch_add(1, Ordering::SeqCst);
                if self.publishes.take() {
                    return true;
                }
                if self
                    .answers
                    .left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                    .is_ok()
                {
                    inboxes.insert((*inbox).to_owned());
                }
                false
            }
            ["MSG" | "HMSG", subject, ..] if inboxes.remove(*subject) => {
                self.answers.so_far.fetch_add(1, Ordering::SeqCst);
                true
            }
            _ => false,
        }
    }
}
