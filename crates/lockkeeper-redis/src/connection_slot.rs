//! A slot in which callers find the connection in use, or the reason why there is none.

use std::sync::Arc;

use lockkeeper_core::store::StoreError;
use tokio::sync::watch;

use crate::connection::Connection;

#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    state: watch::Sender<State>,
}

#[derive(Debug)]
enum State {
    /// The first connection is being made.
    Opening,
    Up(Arc<Connection>),
    Down(String),
    Closed,
}

impl ConnectionSlot {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self::starting_as(State::Up(connection))
    }

    /// A slot that has had no connection yet.
    pub(crate) fn down(why: &str) -> Self {
        Self::starting_as(State::Down(why.to_owned()))
    }

    /// A slot whose first connection is being made.
    pub(crate) fn opening() -> Self {
        Self::starting_as(State::Opening)
    }

    fn starting_as(state: State) -> Self {
        Self {
            state: watch::Sender::new(state),
        }
    }

    /// The connection to use; without one, fails at once with the reason.
    pub(crate) fn connection(&self) -> Result<Arc<Connection>, StoreError> {
        match &*self.state.borrow() {
            State::Up(connection) => Ok(Arc::clone(connection)),
            State::Opening => Err(StoreError::not_sent("not connected yet")),
            State::Down(why) => Err(not_connected(why)),
            State::Closed => Err(closed_error()),
        }
    }

    /// Whether there is one.
    pub(crate) fn is_up(&self) -> bool {
        matches!(&*self.state.borrow(), State::Up(_))
    }

    /// Resolves once the first attempt to connect has succeeded or failed.
    pub(crate) async fn decided(&self) {
        let mut state = self.state.subscribe();
        // The sender is in `self`, so there is no error.
        let _ = state
            .wait_for(|state| !matches!(state, State::Opening))
            .await;
    }

    /// From now on callers use `connection`.
    pub(crate) fn raise(&self, connection: Arc<Connection>) {
        self.state.send_modify(|state| {
            if !matches!(state, State::Closed) {
                *state = State::Up(connection);
            }
        });
    }

    /// From now on callers that would use `connection` get the reason `why` there is none.
    pub(crate) fn lower(&self, connection: &Arc<Connection>, why: &str) {
        self.state.send_modify(|state| {
            if matches!(state, State::Up(current) if Arc::ptr_eq(current, connection)) {
                *state = State::Down(why.to_owned());
            }
        });
    }

    /// From now on callers get this reason for the missing connection.
    pub(crate) fn explain(&self, why: String) {
        self.state.send_modify(|state| {
            if let State::Down(reason) = state {
                *reason = why;
            }
        });
    }

    /// The first connection could not be made.
    pub(crate) fn give_up_opening(&self, why: &str) {
        self.state.send_modify(|state| {
            if matches!(state, State::Opening) {
                *state = State::Down(why.to_owned());
            }
        });
    }

    /// There will be no connection again.
    pub(crate) fn close(&self) {
        self.state.send_replace(State::Closed);
    }
}

/// Closes the slot however the task that fills it ends, even at the end of the runtime.
#[derive(Debug)]
pub(crate) struct CloseOnDrop(pub(crate) Arc<ConnectionSlot>);

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

/// The error of a call for which there is no connection.
pub(crate) fn not_connected(why: &str) -> StoreError {
    match why {
        "" => StoreError::not_sent("not connected"),
        why => StoreError::not_sent(format!("not connected: {why}")),
    }
}

/// The error of a closed store.
pub(crate) fn closed_error() -> StoreError {
    StoreError::not_sent("the store is closed")
}
