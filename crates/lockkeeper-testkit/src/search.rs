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
//! Clients begin, ask again, renew, let go, close and crash whenever they may. Any request can be in trouble: late on its
//! way there or back, never executed, refused, not sent, given up; and one that is given up can be executed at any time
//! later, as often as it likes. Requests overtake each other. Time moves in ticks, for server and clients alike; a lease
//! ends for its holder a millisecond before it ends on the server, between the same two ticks, so a deadline that is
//! wrong by one tick shows.
//!
//! In every state, and at every step, these properties must hold ([`Violation`]):
//!
//! 1. Two claims that exclude one another are never both believed in, and belief that has ended never comes back.
//! 2. Tokens increase from grant to grant and are shared by re-entries, and nobody believes in a token when a larger one has
//!    been granted to somebody else.
//! 3. Released means free: what has left is not on the server and does not come back, and only an acquire creates.
//! 4. A leave that frees the name wakes who sleeps, and from every state, once nothing goes wrong any more, every waiter is
//!    served.
//!
//! # What is not
//!
//! - More of anything than the [`Bounds`] say.
//! - Servers that lose data, clocks that drift apart, refused messages, longest times to hold, questions out of turn.
//! - Batches of renewals: each goes out alone here. `tests/scripts.rs` shows that the items of a batch do not mind each other.
//! - Who of the waiters of one client looks, and how a waiter's timer goes: here everybody may look at any moment. So late and
//!   lost messages make no states of their own; that a message *is sent* is a property.
//! - Progress is followed along one run from each state, not along all.
//!
//! # How states are kept few
//!
//! Server and clients are kept by number, symmetric clients are one ([renamed] in what the server holds too), claims forget
//! what cannot matter any more, every run of a script is remembered, and a request that goes well is one step. Tokens stay
//! few because the server's clock is behind the last one, as after it was stepped back, unless asked otherwise.
//!
//! [renamed]: lockkeeper_memory::Snapshot::renamed
//!
//! # How a kind joins
//!
//! By a [`Model`]: its protocol, and which claims may hold together. That is all for a kind whose messages say "look", whose
//! claims ask, renew and leave, and whose `verify` tells who holds; the properties ask nothing else of it. What else a kind has
//! goes here:
//!
//! | a kind with | needs |
//! |---|---|
//! | modes, such as readers | a protocol by seat in [`Model`], and [`Model::exclude`] to say which modes do |
//! | requests of another sort, such as beats | a `Question`, its item in `server.rs`, and when it may be sent in `moves.rs` |
//! | messages that grant | the message as a second way of a request's flight in `moves.rs`: late, lost, heard |
//! | scripts that remember request numbers | numbers that count up, in `Question::number` |
//! | a queue | its order as a property, in `property.rs` |

mod bounds;
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

pub use bounds::{Bounds, MOST_CLIENTS};
pub use explore::search;
pub use model::{Model, Seat};
pub use property::Violation;
pub use report::{Found, Progress, Report};
