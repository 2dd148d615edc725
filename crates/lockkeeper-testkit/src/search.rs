//! Exhaustive search: not a sample of the states that a lock can get into but all of them, within bounds.
//!
//! A state is a server, some clients with their claims, and the requests on their way. The steps between states are not
//! a model written down beside the code: the server's are the shipped scripts on the embedded engine, a request is what
//! the kind's [`Protocol`](lockkeeper_core::protocol::Protocol) builds, and what a client may send and believe is what
//! the engine's own [`Claim`](lockkeeper_core::claim::Claim) says. Only what the engine does *around* a claim is modelled,
//! and as freely as possible; see `moves.rs`.
//!
//! # What is explored
//!
//! Clients begin, ask again, send heartbeats, renew, convert modes, let go, close and crash whenever they may. A message that a claim was granted comes at
//! any time later, as often as it likes, or never. Any request can be in trouble: late on its
//! way there or back, never executed, refused, not sent, given up; and one that is given up can be executed at any time
//! later, as often as it likes. Requests overtake each other. Time moves in ticks, for server and clients alike; a lease
//! ends for its holder a millisecond before it ends on the server, between the same two ticks, so a deadline that is
//! wrong by one tick shows.
//!
//! In every state, and at every step, these properties must hold ([`Violation`]):
//!
//! 1. Two claims that exclude one another are never both believed in, none is for longer than the server keeps it, and belief
//!    that has ended never comes back.
//! 2. Tokens increase from grant to grant and are shared by re-entries, and nobody believes in a token when a larger one has
//!    been granted to somebody else.
//! 3. Released means free: what has left is not on the server and does not come back, and only an acquire creates.
//! 4. A leave that frees the name wakes who sleeps, and from every state, once nothing goes wrong any more, every waiter is
//!    served.
//! 5. In a queue nobody gets past another, who is heard keeps its place, and who asks, heartbeats or leaves gives a free name to who
//!    is next, for a waiter's ttl at most, and tells it. When nobody wants the name any more, what is left of dead waiters
//!    does not stay in the way of a late comer, and goes.
//!
//! # What is not
//!
//! - More of anything than the [`Bounds`] say.
//! - Servers that lose data, clocks that drift apart, refused messages, longest times to hold, questions out of turn.
//! - Batches of renewals: each goes out alone here. `tests/scripts.rs` shows that the items of a batch do not mind each other.
//! - Who of the waiters of one client looks, and how a waiter's timer goes: here everybody may look at any moment. So late and
//!   lost messages that say "look" make no states of their own; that a message *is sent* is a property.
//! - Which claims a client expects messages for, limits of a queue, and tries that do not wait.
//! - Progress is followed along one run from each state, not along all.
//!
//! # How states are kept few
//!
//! Server and clients are kept by number, symmetric clients are one ([renamed] in what the server holds too), claims forget
//! what cannot matter any more, every run of a script is remembered, and a request that goes well is one step. Tokens stay
//! few because the server's clock is behind the last one, as after it was stepped back, unless asked otherwise. Requests that a
//! queue notes are numbered by the tick of their send, from which everything counts that they are noted for.
//!
//! [renamed]: lockkeeper_memory::Snapshot::renamed
//!
//! # How a kind joins
//!
//! By a [`Model`]: its protocol, and which claims may hold together. That is all for a kind whose messages say "look" or grant,
//! whose claims ask, heartbeat, renew and leave, and whose `verify` and `queue` tell who holds and who waits; the properties ask
//! nothing else of it. What else a kind has goes here:
//!
//! | a kind with | needs |
//! |---|---|
//! | other modes than to read or write | a [`Mode`], its protocol in [`Model`], and [`Model::exclude`] to say which do |
//! | requests of another sort, such as conversions | a `Question`, its item in `server.rs`, and when it may be sent, as in `conversions.rs` |
//! | scripts that remember request numbers of another sort | numbers that count up, in `Question::number` |
//! | grants of many at once | nothing: a run may tell of many; `turns.rs` says who has got past whom |

mod bounds;
mod conversions;
mod effect;
mod explore;
mod heal;
mod model;
mod moves;
mod property;
mod report;
mod server;
mod state;
mod step;
mod tokens;
mod turns;

pub use bounds::{Bounds, MOST_CLIENTS};
pub use explore::search;
pub use model::{Mode, Model, Seat};
pub use property::Violation;
pub use report::{Found, Progress, Report};
