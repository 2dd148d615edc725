//! One connection through the proxy: two pumps, and what ends them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Direction, Sever, Shared};

/// Copies bytes both ways until both sides have ended, one breaks, or a fault cuts them. The client's side is closed on
/// return. If the server's side is returned, the caller must [drain](drain) it.
pub(super) async fn run(
    mut client: TcpStream,
    mut server: TcpStream,
    shared: &Shared,
    mut sever: watch::Receiver<Sever>,
) -> Option<TcpStream> {
    // Requests are small; without this the kernel may keep one back until an earlier one is acknowledged.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let reply_lost = AtomicBool::new(false);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let pump = |direction, from, to| Pump {
        direction,
        from,
        to,
        shared,
        reply_lost: &reply_lost,
        trigger: (0, 0),
        tail: Vec::new(),
    };
    let mut requests = pump(Direction::ToServer, from_client, to_server);
    let mut replies = pump(Direction::ToClient, from_server, to_client);
    let end = tokio::select! {
        biased;
        Ok(()) = sever.changed() => End::Severed(*sever.borrow()),
        ended = async { tokio::try_join!(requests.run(), replies.run()) } => match ended {
            Ok(_) => return None,
            Err(end) => end,
        },
    };
    match end {
        End::Severed(Sever::Reset) => {
            let _ = (client.set_zero_linger(), server.set_zero_linger());
            return None;
        }
        End::Cut => shared.seen.send_modify(|seen| seen.cut += 1),
        End::Severed(Sever::Cut) | End::Broken => {}
    }
    Some(server)
}

/// Ends the server's side of a cut connection so that the server still reads what was sent: closing with unread bytes would
/// reset the connection, and the reset may overtake a request.
pub(super) async fn drain(mut server: TcpStream) {
    // Both fail only if the server has already closed.
    let _ = server.shutdown().await;
    let _ = tokio::io::copy(&mut server, &mut tokio::io::sink()).await;
}

/// Why a connection ends before both sides have closed it.
enum End {
    /// By a byte count or a lost reply.
    Cut,
    /// By a call.
    Severed(Sever),
    /// One side has gone and the other still sends to it.
    Broken,
}

/// One direction of one connection.
struct Pump<'a> {
    direction: Direction,
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    shared: &'a Shared,
    /// Set once the request whose reply is to be lost has passed.
    reply_lost: &'a AtomicBool,
    /// The number of the latest byte count seen, and the bytes passed since.
    trigger: (u64, u64),
    /// The end of the last chunk, which may contain the beginning of the searched text.
    tail: Vec<u8>,
}

impl Pump<'_> {
    async fn run(&mut self) -> Result<(), End> {
        let mut settings = self.shared.settings.subscribe();
        // Chunks by arrival time; an empty one marks the end. Unbounded, so that the sender does not notice a hold or delay.
        let mut queue: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        let mut buffer = vec![0; 16 * 1024];
        let mut open = true;
        while open || !queue.is_empty() {
            let due = {
                let lane = &settings.borrow_and_update().lanes[self.direction as usize];
                let next = queue.front().filter(|_| !lane.held);
                next.map(|(arrived, _)| *arrived + lane.delay)
            };
            tokio::select! {
                biased;
                Ok(()) = settings.changed() => {}
                () = until(due), if due.is_some() => {
                    if let Some((_, chunk)) = queue.pop_front() {
                        self.pass(&chunk).await?;
                    }
                }
                read = self.from.read(&mut buffer), if open => {
                    // A reset counts as an end, which a hold or a black hole must not let through.
                    let count = read.unwrap_or_default();
                    open = count > 0;
                    queue.push_back((Instant::now(), buffer[..count].to_vec()));
                    self.shared.seen.send_modify(|seen| {
                        seen.received[self.direction as usize] += count as u64;
                    });
                }
            }
        }
        Ok(())
    }

    /// Passes a chunk on, or applies the current faults to it.
    async fn pass(&mut self, chunk: &[u8]) -> Result<(), End> {
        if self.direction == Direction::ToClient && self.reply_lost.load(Ordering::Relaxed) {
            return Err(End::Cut);
        }
        if self.shared.settings.borrow().lanes[self.direction as usize].swallowed {
            self.shared.seen.send_modify(|seen| {
                seen.swallowed[self.direction as usize] += chunk.len() as u64;
            });
            return Ok(());
        }
        if chunk.is_empty() {
            // Fails only if that side has already gone.
            let _ = self.to.shutdown().await;
            return Ok(());
        }
        if let Some(allowed) = self.cut_within(chunk.len() as u64) {
            self.forward(&chunk[..allowed]).await?;
            return Err(End::Cut);
        }
        if self.direction == Direction::ToServer {
            self.look_for_text(chunk);
        }
        self.forward(chunk).await
    }

    async fn forward(&mut self, bytes: &[u8]) -> Result<(), End> {
        if self.to.write_all(bytes).await.is_err() {
            // Learning that the receiver has gone would need the other direction, so a fault there hides it.
            let back = &self.shared.settings.borrow().lanes[1 - self.direction as usize];
            return if back.held || back.swallowed {
                Ok(())
            } else {
                Err(End::Broken)
            };
        }
        self.shared.seen.send_modify(|seen| {
            seen.forwarded[self.direction as usize] += bytes.len() as u64;
        });
        Ok(())
    }

    /// How much of a chunk may still pass, if the chunk reaches a byte count.
    fn cut_within(&mut self, length: u64) -> Option<usize> {
        let lane = self.direction as usize;
        let (number, limit) = self.shared.settings.borrow().lanes[lane].cut?;
        if self.trigger.0 != number {
            self.trigger = (number, 0);
        }
        let passed = self.trigger.1;
        self.trigger.1 += length;
        if self.trigger.1 < limit {
            return None;
        }
        // Only one connection is cut: the one that takes the trigger.
        let taken = self.shared.settings.send_if_modified(|settings| {
            let cut = &mut settings.lanes[lane].cut;
            cut.take_if(|(current, _)| *current == number).is_some()
        });
        taken.then(|| usize::try_from(limit.saturating_sub(passed)).unwrap_or(usize::MAX))
    }

    /// Marks the connection if the text of the request whose reply is to be lost ends in this chunk.
    fn look_for_text(&mut self, chunk: &[u8]) {
        let before = self.tail.len();
        self.tail.extend_from_slice(chunk);
        let found = self.shared.settings.send_if_modified(|settings| {
            let ends_here = |text: &mut Vec<u8>| {
                let start = before.saturating_sub(text.len().saturating_sub(1));
                contains(&self.tail[start..], text)
            };
            settings.losing.take_if(ends_here).is_some()
        });
        if found {
            self.reply_lost.store(true, Ordering::Relaxed);
        }
        let kept = self.tail.len().min(LONGEST_TEXT);
        self.tail.drain(..self.tail.len() - kept);
    }
}

/// Returns at once if the time has come: the timer would round up to the next millisecond.
async fn until(due: Option<Instant>) {
    if let Some(due) = due.filter(|due| *due > Instant::now()) {
        sleep_until(due).await;
    }
}

/// How much to remember for a text that spans chunks; longer than a script's SHA-1 or a lock's name.
const LONGEST_TEXT: usize = 256;

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text)
}
