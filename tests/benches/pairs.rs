//! An acquire and a release by the lock, by the store, and by a client library alone, for each of the two libraries.
//!
//! All send the same scripts with the same keys and arguments to the same server. The requests of the ways without the lock
//! are built before the clock starts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use fred::interfaces::{ClientLike as _, Resp3Frame as Frame};
use fred::types::config::{Config, Options, ServerConfig, TcpConfig, UnresponsiveConfig};
use fred::types::{Builder, ClusterHash, CustomCommand, Value as FredValue};
use lockkeeper::{Client, Mutex};
use lockkeeper_core::protocol::{LockProtocol, Protocol as _, RequestContext, ScriptCall};
use lockkeeper_core::store::{Call, Form, Store, slot_of};
use lockkeeper_core::{ClaimId, Kind, Name};
use lockkeeper_lua::{Script, Status, lock};
use lockkeeper_redis::{RedisOptions, Transport};
use lockkeeper_testkit::server::Server;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, RedisConnectionInfo};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::meters::{count, own_processor_time};
use crate::report::{Row, Target};
use crate::rounds::Spread;

/// Lockkeeper's defaults, which the ways without the lock copy.
pub(crate) const NAMESPACE: &str = "lockkeeper";
pub(crate) const TTL: Duration = Duration::from_secs(30);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// How an acquire and a release are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// `Mutex::acquire` and `MutexGuard::release`.
    Lock(Transport),
    /// `Store::call`, on the connection of the lock.
    Store(Transport),
    /// redis-rs' `send_packed_command`, on a socket with the settings that the store uses.
    RedisRs,
    /// fred's `custom_raw`, on a connection with the settings that the store uses.
    Fred,
}

impl Way {
    pub(crate) const ALL: [Self; 6] = [
        Self::Lock(Transport::RedisRs),
        Self::Store(Transport::RedisRs),
        Self::RedisRs,
        Self::Lock(Transport::Fred),
        Self::Store(Transport::Fred),
        Self::Fred,
    ];

    const WORDS: [&str; 6] = [
        "lock, over redis-rs",
        "store, over redis-rs",
        "redis-rs",
        "lock, over fred",
        "store, over fred",
        "fred",
    ];

    /// The pairs of ways to report as ratios.
    const RATIOS: [(usize, usize); 5] = [(0, 1), (0, 2), (3, 4), (3, 5), (0, 3)];
}

/// The rows for the measurements of each way in every round. The target is for the cost of the lock on top of the scripts.
pub(crate) fn rows(
    part: &'static str,
    unit: &'static str,
    samples: &[Vec<Sample>],
    figure: fn(&Sample) -> f64,
    target: Target,
) -> Result<Vec<Row>> {
    let series = |of: fn(&Sample) -> f64| -> Vec<Vec<f64>> {
        let series = samples.iter();
        series
            .map(|samples| samples.iter().map(of).collect())
            .collect()
    };
    let (figures, processor) = (series(figure), series(|sample| sample.processor));
    let each = |values: &[f64]| Spread::of(values.iter().copied());
    let mut rows = Vec::new();
    for (way, values) in Way::WORDS.iter().zip(&figures) {
        rows.push(Row::new(part, *way, unit, each(values)?));
    }
    for (above, below) in Way::RATIOS {
        let what = format!("{} / {}", Way::WORDS[above], Way::WORDS[below]);
        let ratio = Spread::of_ratios(&figures[above], &figures[below])?;
        let row = Row::new(part, what, "×", ratio);
        // Neither of the two transports has to be faster.
        rows.push(match (above, below) {
            (0, 3) => row,
            _ => row.target(target),
        });
    }
    for (way, values) in Way::WORDS.iter().zip(&processor) {
        let what = format!("client CPU, {way}");
        rows.push(Row::new(part, what, "µs", each(values)?));
    }
    Ok(rows)
}

/// The lock and the store over one of the libraries.
struct Side {
    store: Arc<dyn Store>,
    client: Client,
}

impl Side {
    /// Connects and loads the scripts.
    async fn open(server: &Server, transport: Transport) -> Result<Self> {
        let options = RedisOptions::new().transport(transport);
        let store: Arc<dyn Store> = Arc::new(options.connect(&server.url()).await?);
        let client = Client::builder().build(Arc::clone(&store))?;
        let first = Mutex::new(&client, "first").acquire().await?;
        first.release().await?;
        Ok(Self { store, client })
    }
}

/// A server, and all ways to it.
pub(crate) struct Ground {
    over_redis_rs: Side,
    over_fred: Side,
    redis_rs: MultiplexedConnection,
    fred: fred::clients::Client,
    // Dropped last: the connections must go first.
    server: Server,
}

impl Ground {
    /// Starts a server, connects to it and loads the scripts.
    pub(crate) async fn start() -> Result<Self> {
        let server = Server::start().await?;
        Ok(Self {
            over_redis_rs: Side::open(&server, Transport::RedisRs).await?,
            over_fred: Side::open(&server, Transport::Fred).await?,
            redis_rs: connect_redis_rs(&server).await?.0,
            fred: connect_library(&server).await?,
            server,
        })
    }

    fn side(&self, transport: Transport) -> &Side {
        match transport {
            Transport::Fred => &self.over_fred,
            _ => &self.over_redis_rs,
        }
    }

    /// Prepares `pairs` acquires and releases of `name`.
    pub(crate) fn work(&self, way: Way, name: &str, pairs: usize) -> Result<Work> {
        let orders = || (0..pairs).map(|number| self.order(name, number));
        Ok(match way {
            Way::Lock(transport) => {
                Work::Lock(Mutex::new(&self.side(transport).client, name), pairs)
            }
            Way::Store(transport) => {
                let store = Arc::clone(&self.side(transport).store);
                Work::Store(store, orders().collect::<Result<_>>()?)
            }
            Way::RedisRs => {
                let pairs = orders().map(|order| {
                    let order = order?;
                    Ok((command(&order.take, order.request), order))
                });
                Work::RedisRs(self.redis_rs.clone(), pairs.collect::<Result<_>>()?)
            }
            Way::Fred => {
                let pairs = orders().map(|order| {
                    let order = order?;
                    Ok((arguments(order.take.clone(), order.request), order))
                });
                Work::Fred(self.fred.clone(), pairs.collect::<Result<_>>()?)
            }
        })
    }

    /// Closes the connections.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.over_redis_rs.client.close().await;
        self.over_fred.client.close().await;
        self.fred.quit().await?;
        drop(self.redis_rs);
        self.server.stop().await
    }

    /// The lock's requests for one more claim.
    fn order(&self, name: &str, number: usize) -> Result<Order> {
        let name = Name::new(NAMESPACE, name)?;
        let request = u64::try_from(number)? * 2 + 1_000_000;
        let claim = ClaimId::new(
            self.over_redis_rs.client.new_owner(),
            request.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        );
        let lock = LockProtocol::new(name, Kind::new("mutex")).taking();
        // A floor as long as a real one; the lock's scripts draw tokens from the clock, above it.
        let ask = RequestContext::new(&claim, TTL, 1_000_000_000_000_000, None).on_inflated(false);
        let take = lock.acquire(ask);
        Ok(Order { take, request })
    }
}

/// A take, and what the drop needs that follows its answer.
pub(crate) struct Order {
    take: ScriptCall,
    request: u64,
}

impl Order {
    /// The key, the number and the value of the drop of a claim with this token.
    fn drop(&self, token: &str) -> (&str, u64, String) {
        let main = self.take.keys.first().unwrap_or_default();
        let value = self.take.args.first().unwrap_or_default();
        (main, self.request + 1, [value, token].concat())
    }
}

/// Acquires and releases, ready to be sent one after the other.
pub(crate) enum Work {
    /// By the lock, this many times.
    Lock(Mutex, usize),
    /// By the store.
    Store(Arc<dyn Store>, Vec<Order>),
    /// By redis-rs alone.
    RedisRs(MultiplexedConnection, Vec<(Cmd, Order)>),
    /// By fred alone.
    Fred(fred::clients::Client, Vec<(Vec<FredValue>, Order)>),
}

impl Work {
    /// Sends everything and returns how long each acquire and release took together.
    pub(crate) async fn run(self) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        match self {
            Self::Lock(lock, pairs) => {
                times.reserve(pairs);
                for _ in 0..pairs {
                    let start = Instant::now();
                    lock.acquire().await?.release().await?;
                    times.push(start.elapsed());
                }
            }
            Self::Store(store, pairs) => {
                times.reserve(pairs.len());
                let call = |item, number| Call::new(item, number, Form::Sha, REQUEST_TIMEOUT);
                for order in pairs {
                    let start = Instant::now();
                    let take = call(order.take.clone(), order.request);
                    let granted = store.call(take).await?;
                    let token = granted.field(0).and_then(|it| it.as_str());
                    let (main, number, value) = order.drop(token.context("no token")?);
                    let drop = ScriptCall::new(&lock::DROP, [main], [value]);
                    let left = store.call(call(drop, number)).await?.status();
                    times.push(start.elapsed());
                    ensure!(left == Status::Dropped);
                }
            }
            Self::RedisRs(mut connection, pairs) => {
                times.reserve(pairs.len());
                for (take, order) in pairs {
                    let start = Instant::now();
                    let granted = send(&mut connection, &take).await?;
                    let redis::Value::BulkString(line) = &granted else {
                        bail!("{granted:?}")
                    };
                    let (main, number, value) = order.drop(token(line)?);
                    let mut drop = redis::cmd("EVALSHA");
                    drop.arg(lock::DROP.sha1)
                        .arg(1)
                        .arg(main)
                        .arg(number)
                        .arg(value);
                    let left = send(&mut connection, &drop).await?;
                    times.push(start.elapsed());
                    ensure!(told(&left) == Some(Status::Dropped));
                }
            }
            Self::Fred(client, pairs) => {
                times.reserve(pairs.len());
                for (take, order) in pairs {
                    let start = Instant::now();
                    let granted = execute(&client, take).await?;
                    let Frame::BlobString { data, .. } = &granted else {
                        bail!("{granted:?}")
                    };
                    let (main, number, value) = order.drop(token(data)?);
                    let drop = ScriptCall::new(&lock::DROP, [main], [value]);
                    let left = execute(&client, arguments(drop, number)).await?;
                    times.push(start.elapsed());
                    ensure!(status(&left) == Some(Status::Dropped));
                }
            }
        }
        Ok(times)
    }
}

/// One round of one way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Median time of one acquire and release, µs.
    pub(crate) latency: f64,
    /// Acquires and releases per second, all tasks together.
    pub(crate) throughput: f64,
    /// Processor time of this process per acquire and release, µs.
    pub(crate) processor: f64,
}

impl Sample {
    /// Runs each work in a task of its own, all at the same time.
    pub(crate) async fn take(works: Vec<Work>) -> Result<Self> {
        let mut tasks = Vec::with_capacity(works.len());
        let (start, processor) = (Instant::now(), own_processor_time()?);
        for work in works {
            tasks.push(tokio::spawn(work.run()));
        }
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await??);
        }
        let elapsed = start.elapsed();
        let processor = own_processor_time()? - processor;
        times.sort_unstable();
        let pairs = count(times.len());
        let Some(median) = times.get(times.len() / 2) else {
            bail!("nothing was measured")
        };
        Ok(Self {
            latency: micros(*median),
            throughput: pairs / elapsed.as_secs_f64(),
            processor: micros(processor) / pairs,
        })
    }
}

/// A duration as a figure, µs.
pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn arguments(item: ScriptCall, request: u64) -> Vec<FredValue> {
    let Script { sha1, .. } = *item.script;
    let mut arguments = vec![
        FredValue::from_static_str(sha1),
        FredValue::from(item.keys.len().to_string()),
    ];
    arguments.extend(item.keys.iter().map(FredValue::from));
    arguments.push(FredValue::from(request.to_string()));
    arguments.extend(item.args.iter().map(FredValue::from));
    arguments
}

async fn execute(client: &fred::clients::Client, arguments: Vec<FredValue>) -> Result<Frame> {
    let options = Options {
        fail_fast: true,
        max_attempts: Some(2),
        timeout: Some(REQUEST_TIMEOUT),
        ..Options::default()
    };
    let slot = arguments
        .get(2)
        .and_then(FredValue::as_str)
        .map_or(0, |key| slot_of(&key));
    let command = CustomCommand::new_static("EVALSHA", ClusterHash::Custom(slot), false);
    let client = client.with_options(&options);
    Ok(client.custom_raw(command, arguments).await?)
}

/// The status in a script's reply.
fn status(reply: &Frame) -> Option<Status> {
    let fields = match reply {
        Frame::Array { data, .. } => data,
        Frame::BlobString { data, .. } => return of_line(data),
        _ => return None,
    };
    match fields.get(1)? {
        Frame::BlobString { data, .. } => Status::parse(std::str::from_utf8(data).ok()?),
        _ => None,
    }
}

/// The token in the reply to a take.
fn token(line: &[u8]) -> Result<&str> {
    let mut words = std::str::from_utf8(line)?.split(' ');
    words.nth(2).context("no token")
}

/// The status of a reply that is one line: its second word.
fn of_line(line: &[u8]) -> Option<Status> {
    Status::parse(std::str::from_utf8(line).ok()?.split(' ').nth(1)?)
}

pub(crate) fn command(item: &ScriptCall, request: u64) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(item.script.sha1).arg(item.keys.len());
    for key in item.keys.iter() {
        command.arg(key);
    }
    command.arg(request);
    for arg in item.args.iter() {
        command.arg(arg);
    }
    command
}

pub(crate) async fn send(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
) -> Result<redis::Value> {
    let reply = connection.send_packed_command(command);
    Ok(timeout(REQUEST_TIMEOUT, reply).await??)
}

/// As [`status`], for redis-rs.
pub(crate) fn told(reply: &redis::Value) -> Option<Status> {
    if let redis::Value::BulkString(line) = reply {
        return of_line(line);
    }
    match reply.as_sequence()?.get(1)? {
        redis::Value::BulkString(text) => Status::parse(std::str::from_utf8(text).ok()?),
        _ => None,
    }
}

/// Connects with the settings that the store uses. Returns the messages of subscriptions too.
pub(crate) async fn connect_redis_rs(
    server: &Server,
) -> Result<(MultiplexedConnection, UnboundedReceiver<PushInfo>)> {
    let stream = TcpStream::connect(server.address()).await?;
    stream.set_nodelay(true)?;
    let (sender, messages) = unbounded_channel();
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(256)
        .set_push_sender(sender);
    let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let connection = MultiplexedConnection::new_with_config(&info, stream, config).await;
    let (connection, driver) = connection.context("failed to connect by redis-rs")?;
    tokio::spawn(driver);
    Ok((connection, messages))
}

/// Connects with the settings that the store uses.
async fn connect_library(server: &Server) -> Result<fred::clients::Client> {
    let config = Config {
        server: ServerConfig::new_centralized("127.0.0.1", server.port()),
        fail_fast: true,
        ..Config::default()
    };
    let client = Builder::from_config(config)
        .with_connection_config(|connection| {
            connection.connection_timeout = SILENCE_TIMEOUT;
            connection.internal_command_timeout = SILENCE_TIMEOUT;
            connection.max_command_attempts = 2;
            connection.tcp = TcpConfig {
                nodelay: Some(true),
                ..TcpConfig::default()
            };
            connection.unresponsive = UnresponsiveConfig {
                max_timeout: Some(SILENCE_TIMEOUT),
                interval: SILENCE_TIMEOUT / 4,
            };
        })
        .with_performance_config(|performance| {
            performance.default_command_timeout = SILENCE_TIMEOUT;
        })
        .build()?;
    client.init().await?;
    Ok(client)
}
