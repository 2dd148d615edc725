//! A connection for messages: one task reads everything and distinguishes messages, confirmations and answers.
//!
//! The library's own connection counts answers against requests. A server may send `sunsubscribe` unasked, when a slot moves to
//! another node, and such a count would be off by one from then on. Here the kind and the channel identify every confirmation, and
//! every run of changes ends with a `PING` whose nonce shows that everything before it has been answered.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use lockkeeper_core::store::StoreError;
use redis::{Pipeline, PushKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::answer;
use super::socket::{CHUNK, Replies, Socket, why};
use crate::failure::{self, CLOSED, GIBBERISH};
use crate::reply;
use crate::wire::exchange::{Answer, Change, Changed, Heard, Listener, nonce, out_of_step};

/// The callers' half.
pub(crate) struct Messages(mpsc::UnboundedSender<(Vec<u8>, Owed)>);

/// A reply that the server owes to a caller.
pub(super) enum Owed {
    Answer(oneshot::Sender<Answer>),
    Changes(Box<Batch>),
}

/// Changes that wait for their confirmations, and the `PING` after them.
pub(super) struct Batch {
    wanted: Vec<Wanted>,
    refusals: Vec<StoreError>,
    nonce: String,
    answer: oneshot::Sender<Result<Vec<Changed>, StoreError>>,
}

struct Wanted {
    kind: PushKind,
    channel: String,
    /// How many subscriptions of its kind there are, once the change is confirmed.
    count: Option<usize>,
}

/// Starts to serve a connection; the future ends with it and returns why.
pub(super) fn start(
    socket: Socket,
    listener: Listener,
) -> (Messages, impl Future<Output = String> + Send) {
    let (orders, received) = mpsc::unbounded_channel();
    let (reader, writer) = tokio::io::split(socket);
    let life = async move {
        let owed = Mutex::default();
        tokio::select! {
            why = write(writer, received, &owed) => why,
            why = read(reader, &owed, &listener) => why,
        }
    };
    (Messages(orders), life)
}

impl Messages {
    pub(super) async fn request(&self, bytes: Vec<u8>) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.order(bytes, Owed::Answer(answer))?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    pub(super) async fn change(&self, changes: &[Change<'_>]) -> Result<Vec<Changed>, StoreError> {
        let mut pipeline = Pipeline::with_capacity(changes.len() + 1);
        for (command, channel) in changes.iter().map(|change| change.words()) {
            pipeline.cmd(command).arg(channel);
        }
        let nonce = nonce();
        pipeline.cmd("PING").arg(&nonce);
        let (answer, answered) = oneshot::channel();
        let batch = Batch::new(changes, nonce, answer);
        self.order(
            pipeline.get_packed_pipeline(),
            Owed::Changes(Box::new(batch)),
        )?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    fn order(&self, bytes: Vec<u8>, owed: Owed) -> Result<(), StoreError> {
        let order = self.0.send((bytes, owed));
        order.map_err(|_| StoreError::not_sent(CLOSED))
    }
}

fn ended() -> StoreError {
    StoreError::unknown("the connection ended")
}

async fn write(
    mut writer: WriteHalf<Socket>,
    mut orders: mpsc::UnboundedReceiver<(Vec<u8>, Owed)>,
    owed: &Mutex<VecDeque<Owed>>,
) -> String {
    while let Some((bytes, debt)) = orders.recv().await {
        lock(owed).push_back(debt);
        let written = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            return failure::words_of_io(&error);
        }
    }
    // No caller can ask for anything any more, but the owner may still listen.
    std::future::pending().await
}

async fn read(
    mut reader: ReadHalf<Socket>,
    owed: &Mutex<VecDeque<Owed>>,
    listener: &Listener,
) -> String {
    let (mut replies, mut chunk) = (Replies::default(), vec![0; CHUNK]);
    loop {
        let read = reader.read(&mut chunk).await;
        let Ok(length @ 1..) = read else {
            return why(&read);
        };
        let Ok(values) = replies.read(&chunk[..length]) else {
            return GIBBERISH.to_owned();
        };
        for value in values {
            if let Err(error) = take(value, &mut lock(owed), listener) {
                return error.to_string();
            }
        }
    }
}

fn lock(owed: &Mutex<VecDeque<Owed>>) -> std::sync::MutexGuard<'_, VecDeque<Owed>> {
    owed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives one reply to the caller that waits for it. An error means that no caller does, and the connection is out of step.
pub(super) fn take(
    value: redis::Value,
    owed: &mut VecDeque<Owed>,
    listener: &Listener,
) -> Result<(), StoreError> {
    match notice(&value) {
        Some(Notice::Message { channel, payload }) => {
            listener(Heard::Message { channel, payload });
            return Ok(());
        }
        Some(Notice::Changed {
            kind,
            channel,
            count,
        }) => {
            let known = match owed.front_mut() {
                Some(Owed::Changes(batch)) => batch.confirm(&kind, channel, count),
                _ => false,
            };
            return match known {
                true => Ok(()),
                false if kind == PushKind::SUnsubscribe => {
                    listener(Heard::Taken);
                    Ok(())
                }
                false => Err(out_of_step()),
            };
        }
        // A push of a kind that no caller asks for.
        None if matches!(value, redis::Value::Push { .. }) => return Ok(()),
        None => {}
    }
    match owed.pop_front() {
        // An error means that the caller has given up.
        Some(Owed::Answer(caller)) => drop(caller.send(answer(value))),
        Some(Owed::Changes(batch)) => {
            if let Some(unfinished) = batch.answered(answer(value))? {
                owed.push_front(Owed::Changes(Box::new(unfinished)));
            }
        }
        None => return Err(out_of_step()),
    }
    Ok(())
}

/// What a server sends besides answers.
enum Notice<'a> {
    Message {
        channel: &'a str,
        payload: &'a [u8],
    },
    /// The subscriptions of the connection have changed: this many of this kind there are now.
    Changed {
        kind: PushKind,
        channel: &'a [u8],
        count: usize,
    },
}

/// Distinguishes a notice from an answer. RESP2 sends both as lists.
fn notice(value: &redis::Value) -> Option<Notice<'_>> {
    use redis::Value as Reply;

    let (kind, fields) = match value {
        Reply::Push { kind, data } => (kind.clone(), data.as_slice()),
        Reply::Array(fields) => match fields.split_first()? {
            (Reply::BulkString(word), fields) => (kind_of(word)?, fields),
            _ => return None,
        },
        _ => return None,
    };
    match (kind, fields) {
        (
            PushKind::Message | PushKind::SMessage,
            [Reply::BulkString(channel), Reply::BulkString(payload)],
        ) => Some(Notice::Message {
            channel: str::from_utf8(channel).ok()?,
            payload,
        }),
        (kind, [Reply::BulkString(channel), Reply::Int(count)]) => Some(Notice::Changed {
            kind,
            channel,
            count: usize::try_from(*count).unwrap_or_default(),
        }),
        _ => None,
    }
}

fn kind_of(word: &[u8]) -> Option<PushKind> {
    Some(match word {
        b"message" => PushKind::Message,
        b"smessage" => PushKind::SMessage,
        b"subscribe" => PushKind::Subscribe,
        b"unsubscribe" => PushKind::Unsubscribe,
        b"ssubscribe" => PushKind::SSubscribe,
        b"sunsubscribe" => PushKind::SUnsubscribe,
        _ => return None,
    })
}

impl Batch {
    pub(super) fn new(
        changes: &[Change<'_>],
        nonce: String,
        answer: oneshot::Sender<Result<Vec<Changed>, StoreError>>,
    ) -> Self {
        let wanted = |change: &Change<'_>| {
            let kind = match change {
                Change::Subscribe(_) => PushKind::Subscribe,
                Change::Unsubscribe(_) => PushKind::Unsubscribe,
                Change::SubscribeSharded(_) => PushKind::SSubscribe,
                Change::UnsubscribeSharded(_) => PushKind::SUnsubscribe,
            };
            Wanted {
                kind,
                channel: change.words().1.to_owned(),
                count: None,
            }
        };
        Self {
            wanted: changes.iter().map(wanted).collect(),
            refusals: Vec::new(),
            nonce,
            answer,
        }
    }

    /// Whether this confirms one of the changes.
    fn confirm(&mut self, kind: &PushKind, channel: &[u8], count: usize) -> bool {
        let open = self.wanted.iter_mut().find(|wanted| {
            let same = wanted.kind == *kind && wanted.channel.as_bytes() == channel;
            same && wanted.count.is_none()
        });
        open.map(|wanted| wanted.count = Some(count)).is_some()
    }

    /// Takes a refusal, or the echo, after which the caller is answered. Returns the batch if more replies are owed.
    fn answered(mut self, answer: Answer) -> Result<Option<Self>, StoreError> {
        match answer {
            Ok(value) if reply::is_pong(&value, &self.nonce) => self.finish()?,
            Ok(_) => return Err(out_of_step()),
            Err(refusal) => {
                self.refusals.push(refusal);
                let certain = self
                    .refusals
                    .iter()
                    .filter(|refusal| !self.doubtful(refusal));
                if certain.count() <= self.open() {
                    return Ok(Some(self));
                }
                // One refusal more than there are open changes: the server answered the `PING` itself with an error, as a busy
                // server does, and as the sentinels of Redis 6.2 always do.
                self.refusals.pop();
                self.finish()?;
            }
        }
        Ok(None)
    }

    /// Whether this may be about an `SUNSUBSCRIBE` that looks confirmed already, because the server had sent the same unasked.
    fn doubtful(&self, refusal: &StoreError) -> bool {
        let mut wanted = self.wanted.iter();
        refusal.code() == Some("MOVED") && wanted.any(|it| it.kind == PushKind::SUnsubscribe)
    }

    /// How many changes are not confirmed yet.
    fn open(&self) -> usize {
        let open = self.wanted.iter().filter(|wanted| wanted.count.is_none());
        open.count()
    }

    /// Assigns the refusals: every change is confirmed or refused, and refusals come in the order of the changes.
    fn finish(mut self) -> Result<(), StoreError> {
        while self.refusals.len() > self.open() {
            let mut refusals = self.refusals.iter();
            let surplus = refusals.position(|refusal| self.doubtful(refusal));
            self.refusals.remove(surplus.ok_or_else(out_of_step)?);
        }
        let mut refusals = self.refusals.into_iter();
        let changed = self.wanted.iter().map(|wanted| match wanted.count {
            Some(count) => Ok(Ok(Some(count))),
            None => refusals.next().map(Err).ok_or_else(out_of_step),
        });
        let changed = changed.collect::<Result<_, StoreError>>()?;
        // An error means that the caller has given up.
        drop(self.answer.send(Ok(changed)));
        Ok(())
    }
}
