//! The connections of visitors, and what they may take: how many there are, how long a request may take to arrive, and how long an
//! answer may take to be read. Each connection is for one request.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_io_timeout::TimeoutStream;

/// The largest number of connections: twice that of [pages](super::viewers::MOST), so that there is always room for scrapes, and half
/// of the 256 files that a process on macOS may open; on Linux it is usually 1024.
const MOST: u32 = 128;

/// How long a request may take to arrive. Browsers open connections before they need them, and others may be slow.
const ARRIVAL: Duration = Duration::from_secs(30);

/// How long an answer may take to be made and read, if it does not [stay](Stay). All of them are small.
const ANSWER: Duration = Duration::from_secs(30);

/// How long an answer waits for a visitor that reads nothing of it. A network may stand still for some seconds.
const UNREAD: Duration = Duration::from_secs(30);

/// How much of a request or an answer is kept in memory. The longest name has some 3 KB in an address.
const BUFFER: usize = 64 * 1024;

/// How long to wait before the next attempt if the system has no room for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// All connections.
pub(super) struct Connections {
    routes: Router,
    places: Arc<Semaphore>,
    expected: Arc<Expected>,
    /// Whether the server is shutting down.
    over: watch::Receiver<bool>,
}

impl Connections {
    pub(super) fn new(routes: Router, over: watch::Receiver<bool>) -> Self {
        Self {
            routes,
            places: Arc::new(Semaphore::new(MOST as usize)),
            expected: Arc::default(),
            over,
        }
    }

    /// Accepts connections and answers their requests. If there are too many, the first of those whose requests have not arrived
    /// is closed: who connects and sends a request is always let in.
    pub(super) async fn accept(&self, listener: TcpListener) -> Infallible {
        loop {
            let stream = self.next(&listener).await;
            if self.places.available_permits() == 0 {
                self.expected.displace();
            }
            // The semaphore is never closed.
            let place = Arc::clone(&self.places).acquire_owned().await;
            let connection = Connection::new(&self.expected);
            let (routes, over) = (self.routes.clone(), self.over.clone());
            tokio::spawn(async move {
                connection.attend(stream, routes, over).await;
                drop(place);
            });
        }
    }

    async fn next(&self, listener: &TcpListener) -> TcpStream {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return stream,
                // It was closed before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // Too many files are open.
                Err(_) => {
                    self.expected.displace();
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Waits for the answers that are under way, but no longer than this.
    pub(super) async fn end(&self, limit: Duration) {
        // The error is ignored: what is not over by then is not waited for.
        let _ = tokio::time::timeout(limit, self.places.acquire_many(MOST)).await;
    }
}

/// Lets an answer take as long as this exists. Each request has one in its extensions.
#[derive(Clone)]
pub(super) struct Stay {
    _kept: mpsc::Sender<Infallible>,
}

impl Stay {
    /// Returns one, and a receiver that ends with it.
    pub(super) fn new() -> (Self, mpsc::Receiver<Infallible>) {
        let (_kept, left) = mpsc::channel(1);
        (Self { _kept }, left)
    }
}

/// The connections whose requests have not arrived, by the order in which they were accepted.
#[derive(Default)]
struct Expected(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    accepted: u64,
    there: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Expected {
    /// Closes the first of them, if there is any.
    fn displace(&self) {
        let first = self.0.lock().there.pop_first();
        if let Some((_, displace)) = first {
            // The error is ignored: it has been closed already.
            let _ = displace.send(());
        }
    }
}

/// One connection.
struct Connection {
    number: u64,
    expected: Arc<Expected>,
    displaced: oneshot::Receiver<()>,
}

/// Notes that the request of a connection is no longer expected. Returns false if that was noted before.
struct Arrival {
    number: u64,
    expected: Arc<Expected>,
}

impl Arrival {
    fn note(&self) -> bool {
        let mut waiting = self.expected.0.lock();
        waiting.there.remove(&self.number).is_some()
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.note();
    }
}

impl Connection {
    fn new(expected: &Arc<Expected>) -> Self {
        let (displace, displaced) = oneshot::channel();
        let mut waiting = expected.0.lock();
        waiting.accepted += 1;
        let number = waiting.accepted;
        waiting.there.insert(number, displace);
        drop(waiting);
        Self {
            number,
            expected: Arc::clone(expected),
            displaced,
        }
    }

    /// Answers one request. Returns when the connection is closed, for whatever reason.
    async fn attend<S>(self, stream: S, routes: Router, mut over: watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let Self {
            number,
            expected,
            displaced,
        } = self;
        let arrival = Arrival { number, expected };
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(UNREAD));
        let routes = TowerToHyperService::new(routes);
        let (stay, mut left) = Stay::new();
        let stay = Mutex::new(Some(stay));
        let answer = service_fn(|mut request: Request<Incoming>| {
            arrival.note();
            if let Some(stay) = stay.lock().take() {
                request.extensions_mut().insert(stay);
            }
            routes.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(ARRIVAL)
            .keep_alive(false)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(Box::pin(stream)), answer);
        let mut connection = pin!(connection);
        tokio::select! {
            // An error means that the visitor has gone or was too slow, and concerns nobody else.
            _ = connection.as_mut() => return,
            Ok(()) = displaced => return,
            _ = left.recv() => {}
            _ = over.wait_for(|over| *over) => {}
        }
        if !arrival.note() {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(ANSWER, connection).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Extension;
    use axum::body::Body;
    use axum::routing::get;
    use futures_util::stream;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;

    /// Asks for an answer that never ends, and either stays or does not.
    const STAYS: &[u8] = b"GET /stays HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const LEAVES: &[u8] = b"GET /leaves HTTP/1.1\r\nHost: localhost\r\n\r\n";

    /// A connection with little room for what is not read.
    fn attended() -> (DuplexStream, JoinHandle<()>) {
        fn endless<T: Send + 'static>(kept: T) -> Body {
            let parts = async |kept| Some((Ok::<_, Infallible>(vec![b'x'; 1024]), kept));
            Body::from_stream(stream::unfold(kept, parts))
        }
        let routes = Router::new()
            .route("/leaves", get(async || endless(())))
            .route("/stays", get(async |Extension::<Stay>(stay)| endless(stay)));
        let (visitor, stream) = duplex(1024);
        let connection = Connection::new(&Arc::default());
        let attended = async move {
            let (_alive, over) = watch::channel(false);
            connection.attend(stream, routes, over).await;
        };
        (visitor, tokio::spawn(attended))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_does_not_arrive_in_time_ends_its_connection() {
        let begun = Instant::now();
        let (mut visitor, attended) = attended();
        // A byte now and then does not help.
        let slow = async {
            for byte in &STAYS[..STAYS.len() - 1] {
                visitor.write_all(&[*byte]).await.unwrap();
                tokio::time::sleep(ARRIVAL * 3 / 10).await;
            }
        };
        tokio::select! {
            ended = attended => ended.unwrap(),
            () = slow => panic!("it waits on"),
        }
        assert_eq!(begun.elapsed().as_secs(), ARRIVAL.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_read_ends_its_connection_and_one_that_is_read_stays() {
        let (mut visitor, attended) = attended();
        visitor.write_all(STAYS).await.unwrap();
        for _ in 0..10 {
            assert!(visitor.read(&mut [0; 64]).await.unwrap() > 0);
            tokio::time::sleep(UNREAD * 9 / 10).await;
            assert!(!attended.is_finished());
        }
        let ended = tokio::time::timeout(UNREAD * 2, attended).await;
        ended.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_stay_is_read_in_time_or_not_at_all() {
        let begun = Instant::now();
        let (mut visitor, attended) = attended();
        visitor.write_all(LEAVES).await.unwrap();
        let slow = async {
            loop {
                visitor.read_exact(&mut [0; 64]).await.unwrap();
                tokio::time::sleep(UNREAD * 3 / 10).await;
            }
        };
        tokio::select! {
            ended = attended => ended.unwrap(),
            () = slow => {}
        }
        assert_eq!(begun.elapsed().as_secs(), ANSWER.as_secs());
    }
}
