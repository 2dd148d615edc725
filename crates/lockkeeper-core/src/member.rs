//! Members: locks, of any kind, that are to be acquired together with others.

use std::fmt;
use std::sync::Arc;

use crate::engine::Engine;
use crate::error::Result;
use crate::lock::Lock;
use crate::owner::Owner;
use crate::protocol::{Kind, Protocol};

/// One lock of several that are acquired together. Every kind makes them of its locks.
#[derive(Debug, Clone)]
pub struct Member {
    lock: Lock,
    owner: Option<Owner>,
}

impl Member {
    /// `lock` as a member.
    pub const fn new(lock: Lock) -> Self {
        Self { lock, owner: None }
    }

    /// Acquires this member for `owner`, whoever the others are acquired for.
    #[must_use]
    pub const fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(*owner);
        self
    }

    /// Whom it is to be acquired for; `None`: whom all are.
    pub const fn own_owner(&self) -> Option<Owner> {
        self.owner
    }

    /// What its lock is called.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) for a bad name.
    pub fn name(&self) -> Result<&str> {
        Ok(self.lock.protocol()?.name().as_str())
    }

    /// Its main key.
    ///
    /// # Errors
    ///
    /// As for [`name`](Self::name).
    pub fn key(&self) -> Result<&str> {
        Ok(self.lock.protocol()?.name().main())
    }

    /// The kind of its lock.
    ///
    /// # Errors
    ///
    /// As for [`name`](Self::name).
    pub fn kind(&self) -> Result<Kind> {
        Ok(self.lock.protocol()?.kind())
    }

    /// Its kind and, of a kind with modes, its mode.
    ///
    /// # Errors
    ///
    /// As for [`name`](Self::name).
    pub fn mode(&self) -> Result<&'static str> {
        Ok(self.lock.protocol()?.batch())
    }

    /// Whether it can be acquired by one script together with others whose [group](Self::group) is the same.
    ///
    /// # Errors
    ///
    /// As for [`name`](Self::name).
    pub fn joins(&self) -> Result<bool> {
        Ok(self.lock.protocol()?.joins())
    }

    /// The group of its main key: one script may name keys of one group.
    ///
    /// # Errors
    ///
    /// As for [`name`](Self::name).
    pub fn group(&self) -> Result<u32> {
        let key = self.lock.protocol()?.name().main();
        Ok(self.engine().line.store.group(key))
    }

    /// What its server is called, if it has a [name](crate::ClientBuilder::store_name).
    pub fn store_name(&self) -> Option<Arc<str>> {
        self.engine().settings.store_name.clone()
    }

    /// A number that all members of one client have, and no others.
    pub fn client(&self) -> u128 {
        self.engine().id.as_u128()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.lock.client().engine
    }

    pub(crate) fn protocol(&self) -> Result<&Arc<dyn Protocol>> {
        self.lock.protocol()
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.lock)
    }
}
