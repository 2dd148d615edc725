use lockkeeper_core::protocol::{Ask, Item, Protocol};
use lockkeeper_core::{Kind, Name};
use lockkeeper_lua::reentrant;

/// The keys and scripts of a re-entrant lock: one HASH with the owner, the token, and each claim with the end of its own
/// lease.
#[derive(Debug)]
pub(crate) struct ReentrantProtocol {
    name: Name,
}

impl ReentrantProtocol {
    pub(crate) const fn new(name: Name) -> Self {
        Self { name }
    }

    fn main(&self) -> String {
        self.name.main().to_owned()
    }
}

impl Protocol for ReentrantProtocol {
    fn kind(&self) -> Kind {
        Kind::new("reentrant")
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn acquire(&self, ask: Ask<'_>) -> Item {
        Item::new(
            &reentrant::ACQUIRE,
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
                ask.claim.owner().to_string(),
            ],
        )
    }

    fn renew(&self, ask: Ask<'_>) -> Item {
        Item::new(
            &reentrant::RENEW,
            [self.main()],
            [ask.claim.as_str().to_owned(), ask.ttl_ms()],
        )
    }

    fn leave(&self, ask: Ask<'_>, overtakes: bool) -> Item {
        let (claim, channel) = (ask.claim.as_str().to_owned(), self.channel());
        if overtakes {
            let keys = [self.main(), self.name.gone(ask.claim)];
            Item::new(
                &reentrant::LEAVE_MARKED,
                keys,
                [claim, channel, ask.keep_ms(), ask.ttl_ms()],
            )
        } else {
            Item::new(
                &reentrant::LEAVE,
                [self.main()],
                [claim, channel, ask.keep_ms()],
            )
        }
    }

    fn verify(&self, ask: Ask<'_>) -> Item {
        Item::new(
            &reentrant::VERIFY,
            [self.main()],
            [ask.claim.as_str().to_owned()],
        )
    }

    fn reenters(&self) -> bool {
        true
    }
}
