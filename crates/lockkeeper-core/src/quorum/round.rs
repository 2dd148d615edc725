//! One round: one claim asks all servers at once, and the round decides once whether the claim is granted.

use std::time::Duration;

use super::{Quorum, until_the_rest};
use crate::words::moment::Moment;
use crate::words::token::FencingToken;

/// A server's answer to the acquire of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reply {
    /// The claim holds there, with this token.
    Granted(FencingToken),
    /// Another claim holds there, for this long unless it is renewed; `None`: unknown.
    Busy(Option<Duration>),
    /// The server is quarantined for this long: it may have lost claims.
    Out(Duration),
    /// There was no answer, or none that is usable. The claim may hold there.
    Failed,
}

/// The outcome of a write-back to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WrittenBack {
    /// The claim holds there, and the next token will be larger.
    Accepted,
    /// The claim no longer holds there, or is asked to release.
    Refused,
    /// There was no answer, or none that is usable.
    Failed,
}

/// Why a round has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// Others hold. A quorum may be free at this moment; `None` if that is unknown.
    Contended(Option<Moment>),
    /// So many servers have failed or are quarantined that no quorum is left. At this moment enough servers take part
    /// again; `None` if that is unknown.
    Unreachable(Option<Moment>),
    /// A quorum had granted, but its validity was over before the grant was complete.
    Late,
    /// A quorum had granted, but no longer held when the token was written back.
    Vanished,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Wait for answers, at most until this moment; `None` means without a limit.
    Wait(Option<Moment>),
    /// Write the token back to these servers, and wait for answers.
    WriteBack(FencingToken, Vec<usize>),
    /// The claim holds on a quorum. Release it on servers that have not granted.
    Granted(FencingToken),
    /// It does not hold. Release it on every server, including those that did not answer.
    Failed(Failure),
}

/// One server, as the round sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Server {
    /// The acquire was sent at this moment and is unanswered.
    Asked(Moment),
    Granted {
        token: FencingToken,
        until: Moment,
        back: Back,
    },
    Busy(Option<Moment>),
    Out(Moment),
    Failed,
}

/// The state of the write-back to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Back {
    None,
    Asked,
    Accepted,
    Refused,
    Failed,
}

/// See the module documentation. Servers are identified by their index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Round {
    quorum: Quorum,
    /// How long a grant is valid: ttl − drift.
    trust: Duration,
    servers: Vec<Server>,
    began: Moment,
    /// When a quorum of servers had granted.
    reached: Option<Moment>,
    /// The round's token, once a quorum has granted: the one that all of the quorum gave, or else the one to write
    /// back.
    token: Option<FencingToken>,
    /// The largest token of the name that the client had seen before.
    seen: u64,
    decided: bool,
}

impl Round {
    /// A round whose requests are all sent from `now` on; `drift` is how much faster than this machine's clock a
    /// server's clock may run within one ttl.
    pub fn new(quorum: Quorum, ttl: Duration, drift: Duration, now: Moment) -> Self {
        Self {
            quorum,
            trust: ttl.saturating_sub(drift),
            servers: vec![Server::Asked(now); quorum.servers()],
            began: now,
            reached: None,
            token: None,
            seen: 0,
            decided: false,
        }
    }

    /// Sets the largest token of the name that the client has seen. The grant gets a larger one, whatever tokens the
    /// servers give.
    #[must_use]
    pub const fn above(mut self, seen: u64) -> Self {
        self.seen = seen;
        self
    }

    /// Records a server's answer to the acquire. An answer after the decision to write back is too late: the server
    /// does not take part, and the claim must be released there.
    pub fn answered(&mut self, server: usize, reply: Reply, now: Moment) {
        let Some(Server::Asked(sent)) = self.servers.get(server).copied() else {
            return;
        };
        self.servers[server] = match reply {
            Reply::Granted(_) if self.token.is_some() => Server::Failed,
            Reply::Granted(token) => Server::Granted {
                token,
                until: sent.after(self.trust),
                back: Back::None,
            },
            Reply::Busy(left) => Server::Busy(left.map(|left| now.after(left))),
            Reply::Out(left) => Server::Out(now.after(left)),
            Reply::Failed => Server::Failed,
        };
    }

    /// Records a server's answer to the write-back.
    pub fn written_back(&mut self, server: usize, outcome: WrittenBack) {
        if let Some(Server::Granted { back, .. }) = self.servers.get_mut(server)
            && *back == Back::Asked
        {
            *back = match outcome {
                WrittenBack::Accepted => Back::Accepted,
                WrittenBack::Refused if mutant!(GoneWriteBackCounts) => Back::Accepted,
                WrittenBack::Refused => Back::Refused,
                WrittenBack::Failed => Back::Failed,
            };
        }
    }

    /// Returns whether the claim is known to hold on this server.
    pub fn holds_on(&self, server: usize) -> bool {
        matches!(
            self.servers.get(server),
            Some(Server::Granted { back, .. }) if *back != Back::Refused
        )
    }

    /// Returns whether this server has answered that it grants nothing for now: another claim holds there, or the
    /// server is quarantined.
    pub fn is_shut(&self, server: usize) -> bool {
        matches!(
            self.servers.get(server),
            Some(Server::Busy(_) | Server::Out(_))
        )
    }

    /// Returns what to do at `now`. After [`Step::Granted`] or [`Step::Failed`] the round is over.
    pub fn step(&mut self, now: Moment) -> Step {
        let step = match self.token {
            _ if self.decided => Step::Wait(None),
            None => self.gather(now),
            Some(token) => self.confirm(token, now),
        };
        self.decided |= matches!(step, Step::Granted(_) | Step::Failed(_));
        step
    }

    /// Collects grants.
    fn gather(&mut self, now: Moment) -> Step {
        let open = self.count(|server| matches!(server, Server::Asked(_)));
        let granted = self.count(|server| matches!(server, Server::Granted { .. }));
        let live = self.live(now, |_| true);
        if !self.is_reached(live + open) {
            return Step::Failed(self.failure(granted, now));
        }
        if !self.is_reached(live) {
            return Step::Wait(None);
        }
        let reached = *self.reached.get_or_insert(now);
        let patience = until_the_rest(self.began, reached);
        if open > 0 && now < patience {
            return Step::Wait(Some(patience));
        }
        if let Some(agreed) = self.agreed(now) {
            self.token = Some(agreed);
            return Step::Granted(agreed);
        }
        let unseen = FencingToken::new(self.seen.saturating_add(1));
        let largest = self.tokens().fold(unseen, FencingToken::max);
        self.token = Some(largest);
        Step::WriteBack(largest, self.begin_write_back(largest))
    }

    /// The token that all servers of a quorum gave last. The tokens of the other servers do not matter, because every
    /// later grant needs at least one server of this quorum.
    fn agreed(&self, now: Moment) -> Option<FencingToken> {
        if mutant!(UnequalTokensAgree) {
            return self.tokens().max();
        }
        let given = |server: &Server, agreed| matches!(server, Server::Granted { token, until, .. } if *token == agreed && now < *until);
        let mut tokens = self.tokens().filter(|token| token.get() > self.seen);
        tokens.find(|token| self.is_reached(self.count(|server| given(server, *token))))
    }

    /// The tokens of the grants.
    fn tokens(&self) -> impl Iterator<Item = FencingToken> {
        self.servers.iter().filter_map(|server| match server {
            Server::Granted { token, .. } => Some(*token),
            _ => None,
        })
    }

    /// Begins the write-back. Returns the servers that granted another token; a server that granted this one already
    /// has it as its last.
    fn begin_write_back(&mut self, largest: FencingToken) -> Vec<usize> {
        let mut behind = Vec::new();
        for (place, server) in self.servers.iter_mut().enumerate() {
            if let Server::Granted { token, back, .. } = server {
                *back = if *token == largest {
                    Back::Accepted
                } else {
                    behind.push(place);
                    Back::Asked
                };
            }
        }
        behind
    }

    /// Collects acceptances of the token.
    fn confirm(&self, token: FencingToken, now: Moment) -> Step {
        let accepted = self.live(now, |back| back == Back::Accepted);
        let open = self.live(now, |back| back == Back::Asked);
        if self.is_reached(accepted) {
            Step::Granted(token)
        } else if self.is_reached(accepted + open) {
            // After this moment the grant is no longer valid, so a later answer is useless.
            let until = |server: &Server| match server {
                Server::Granted { until, .. } => Some(*until),
                _ => None,
            };
            let ends = self.servers.iter().filter_map(until);
            Step::Wait(self.quorum.reached_by(ends))
        } else {
            let failed = self.count(|server| {
                matches!(
                    server,
                    Server::Failed
                        | Server::Out(_)
                        | Server::Granted {
                            back: Back::Failed,
                            ..
                        }
                )
            });
            Step::Failed(if !self.is_reached(self.live(now, |_| true)) {
                Failure::Late
            } else if self.quorum.is_prevented(failed) {
                Failure::Unreachable(None)
            } else {
                Failure::Vanished
            })
        }
    }

    /// Why a quorum has become impossible.
    fn failure(&self, granted: usize, now: Moment) -> Failure {
        let missing = self.count(|server| matches!(server, Server::Failed | Server::Out(_)));
        let free = self.servers.iter().map(|server| match server {
            Server::Asked(_) | Server::Granted { .. } => Some(now),
            Server::Busy(free) => *free,
            Server::Out(until) => Some(*until),
            Server::Failed => None,
        });
        let free = self.quorum.free_at(free);
        if self.is_reached(granted) {
            Failure::Late
        } else if self.quorum.is_prevented(missing) {
            Failure::Unreachable(free)
        } else {
            Failure::Contended(free)
        }
    }

    /// How many servers have granted, are valid at `now`, and have reached this state of the write-back.
    fn live(&self, now: Moment, come: impl Fn(Back) -> bool) -> usize {
        self.count(|server| {
            matches!(server, Server::Granted { until, back, .. } if now < *until && come(*back))
        })
    }

    fn count(&self, what: impl Fn(&Server) -> bool) -> usize {
        self.servers.iter().filter(|server| what(server)).count()
    }

    fn is_reached(&self, servers: usize) -> bool {
        if mutant!(QuorumOfAnswers) {
            let answered = self.count(|server| !matches!(server, Server::Failed));
            return servers > answered / 2;
        }
        self.quorum.is_reached(servers)
    }
}
