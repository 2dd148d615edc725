//! Tests of the tools themselves: of the servers, the proxy, the rules of models, the records and the simulation. Each module
//! is named like the file of the library that it tests.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

mod cluster;
mod kinds;
mod mutants {
    mod hunt;
}
mod proxy;
mod recorded;
mod search {
    mod single {
        mod runs;
    }
}
mod server;
mod simulation {
    mod checks {
        mod requests;
    }
    mod fate;
    mod net {
        mod fingerprint;
        mod text;
    }
}
mod third;
