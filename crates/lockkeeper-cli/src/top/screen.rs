//! The terminal as a full screen: taken here, and restored however the command ends.

use std::pin::Pin;
use std::task::Poll;

use ratatui::{DefaultTerminal, Frame};
use tokio::signal::unix::{self, SignalKind};

use crate::exit::Failure;

/// The whole screen of the terminal, until it is dropped. A panic restores it before it prints its message.
pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    pub(super) fn open() -> Result<Self, Failure> {
        let terminal = ratatui::try_init().map_err(|error| {
            // The terminal may have been taken only partly.
            ratatui::restore();
            Failure::system("take the terminal", &error)
        })?;
        Ok(Self { terminal })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        let drawn = self.terminal.draw(draw);
        drawn
            .map(|_| ())
            .map_err(|error| Failure::system("write to the terminal", &error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Errors are ignored: a terminal that has hung up needs neither.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// The signals that end a program. This one restores the terminal before it ends.
pub(super) struct Signals(Vec<(u8, unix::Signal)>);

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
        ];
        let listen = |kind: SignalKind| {
            let number = u8::try_from(kind.as_raw_value()).unwrap_or(u8::MAX);
            unix::signal(kind).map(|stream| (number, stream))
        };
        let heard = kinds.into_iter().map(listen).collect::<Result<_, _>>();
        heard
            .map(Self)
            .map_err(|error| Failure::system("listen for signals", &error))
    }

    /// The number of the next signal.
    pub(super) async fn next(&mut self) -> u8 {
        std::future::poll_fn(|context| {
            for (number, stream) in &mut self.0 {
                if Pin::new(stream).poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}
