//! The place where a caller finds the connection in use, or the reason why there is none.

use std::sync::{Arc, PoisonError, RwLock};

use lockkeeper_core::store::StoreError;
use tokio::sync::watch;

use crate::connection::Connection;

#[derive(Debug)]
pub(crate) struct Slot {
    state: RwLock<State>,
}

#[derive(Debug)]
enum State {
    Up(Arc<Connection>),
    Down(String),
    Closed,
}

impl Slot {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self {
            state: RwLock::new(State::Up(connection)),
        }
    }

    /// A slot that has not had a connection yet.
    pub(crate) fn down(why: &str) -> Self {
        Self {
            state: RwLock::new(State::Down(why.to_owned())),
        }
    }

    /// The connection to use; while there is none, the error that says so at once.
    pub(crate) fn current(&self) -> Result<Arc<Connection>, StoreError> {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Up(connection) => Ok(Arc::clone(connection)),
            State::Down(why) => Err(StoreError::not_sent(format!("not connected: {why}"))),
            State::Closed => Err(closed_error()),
        }
    }

    /// From now on callers use `connection`.
    pub(crate) fn raise(&self, connection: Arc<Connection>) {
        self.change(|state| match state {
            State::Closed => State::Closed,
            _ => State::Up(connection),
        });
    }

    /// From now on callers of `connection` are told `why` there is none.
    pub(crate) fn lower(&self, connection: &Arc<Connection>, why: &str) {
        self.change(|state| match state {
            State::Up(current) if Arc::ptr_eq(&current, connection) => State::Down(why.to_owned()),
            state => state,
        });
    }

    /// There will be no connection again.
    pub(crate) fn close(&self) {
        self.change(|_| State::Closed);
    }

    fn change(&self, next: impl FnOnce(State) -> State) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let current = std::mem::replace(&mut *state, State::Closed);
        *state = next(current);
    }
}

/// Closes the slot however the task that fills it ends, the end of the runtime included.
#[derive(Debug)]
pub(crate) struct CloseOnDrop(pub(crate) Arc<Slot>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Resolves once the store is being closed or has been dropped.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the store, which holds the sender, is gone.
    let _ = closing.wait_for(|closing| *closing).await;
}

/// What a closed store answers.
pub(crate) fn closed_error() -> StoreError {
    StoreError::not_sent("the store is closed")
}
