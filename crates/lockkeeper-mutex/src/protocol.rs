use lockkeeper_core::protocol::{Ask, Item, Protocol};
use lockkeeper_core::{Kind, Name};
use lockkeeper_lua::mutex;

/// The keys and scripts of a mutex: one string key with the holder's claim.
///
/// With an empty namespace that is what redis-py, redsync, node-redlock and others write, so they exclude one another.
#[derive(Debug)]
pub(crate) struct MutexProtocol {
    name: Name,
}

impl MutexProtocol {
    pub(crate) const fn new(name: Name) -> Self {
        Self { name }
    }

    fn main(&self) -> String {
        self.name.main().to_owned()
    }
}

impl Protocol for MutexProtocol {
    fn kind(&self) -> Kind {
        Kind::new("mutex")
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn acquire(&self, ask: Ask<'_>) -> Item {
        Item::new(
            &mutex::ACQUIRE,
            [
                self.main(),
                self.name.part("fence"),
                self.name.gone(ask.claim),
            ],
            [
                ask.claim.as_str().to_owned(),
                ask.ttl_ms(),
                ask.floor.to_string(),
                ask.token(),
            ],
        )
    }

    fn renew(&self, ask: Ask<'_>) -> Item {
        Item::new(
            &mutex::RENEW,
            [self.main()],
            [ask.claim.as_str().to_owned(), ask.ttl_ms()],
        )
    }

    fn leave(&self, ask: Ask<'_>, overtakes: bool) -> Item {
        let (claim, channel) = (ask.claim.as_str().to_owned(), self.channel());
        if overtakes {
            Item::new(
                &mutex::LEAVE_MARKED,
                [self.main(), self.name.gone(ask.claim)],
                [claim, channel, ask.keep_ms(), ask.ttl_ms()],
            )
        } else {
            Item::new(
                &mutex::LEAVE,
                [self.main()],
                [claim, channel, ask.keep_ms()],
            )
        }
    }

    fn verify(&self, ask: Ask<'_>) -> Item {
        Item::new(
            &mutex::VERIFY,
            [self.main()],
            [ask.claim.as_str().to_owned()],
        )
    }
}
