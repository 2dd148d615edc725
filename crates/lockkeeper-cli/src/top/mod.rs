//! `lockkeeper top`: holders and waiters on a live screen.
//!
//! [`App`] decides what is shown and what each key does, without a terminal or a server. This module is the loop around it.

mod app;
mod draw;
mod screen;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt as _, stream};
use lockkeeper::Client;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::exit::{Failure, SIGNALLED};
use crate::live::{Sampler, Wanted};
use crate::server::Server;
use app::{Action, App};
use screen::{Screen, Signals};

/// The intervals that are allowed: long enough to read the screen, and short enough for a live screen.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

/// Shows the locks until the user quits; returns the exit code.
pub(crate) async fn top(
    server: &Server,
    pattern: &str,
    interval: Duration,
    json: bool,
) -> Result<u8, Failure> {
    if json {
        return Err(Failure::usage(
            "top has no --json: use `lockkeeper ls --json` or `lockkeeper watch NAME --json`",
        ));
    }
    if !INTERVALS.contains(&interval) {
        return Err(Failure::usage("an --interval must be from 100ms to 1h"));
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "top needs a terminal: without one, use `lockkeeper ls`",
        ));
    }
    let client = server.connect(Client::builder()).await?;
    let (mut sampler, wanted) = Sampler::new(client.clone(), pattern, interval);
    // The first sample is taken before the screen, so that a bad pattern is reported in the normal terminal.
    let first = sampler.next().await?;
    let mut app = App::new(pattern, interval);
    app.sampled(first, Instant::now());
    let mut signals = Signals::listen()?;
    let mut screen = Screen::open()?;
    tokio::select! {
        signal = signals.next() => Ok(SIGNALLED.saturating_add(signal)),
        left = follow(&mut screen, &mut app, &client, sampler, &wanted) => left.map(|()| 0),
    }
}

/// Draws, reads the keys and takes the samples, until the user quits.
async fn follow(
    screen: &mut Screen,
    app: &mut App,
    client: &Client,
    sampler: Sampler,
    wanted: &watch::Sender<Wanted>,
) -> Result<(), Failure> {
    let samples = stream::unfold(sampler, async |mut sampler| {
        Some((sampler.next().await, sampler))
    });
    let mut samples = Box::pin(samples);
    let mut keys = EventStream::new();
    let revoke = async |name: String| {
        let told = client.revoke(&name).await.map_err(Failure::from);
        (name, told)
    };
    let mut revocations = FuturesUnordered::new();
    // Redraws every second, because displayed times continue between two samples.
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(|frame| app.draw(frame, Instant::now()))?;
        wanted.send_if_modified(|before| {
            let wanted = app.wanted();
            let changed = *before != wanted;
            *before = wanted;
            changed
        });
        tokio::select! {
            Some(sample) = samples.next() => app.sampled(sample?, Instant::now()),
            Some((name, told)) = revocations.next() => app.revoked(name, told),
            _ = clock.tick() => {}
            event = keys.next() => {
                // The terminal has hung up.
                let Some(event) = event else { return Ok(()) };
                let event = event.map_err(|error| Failure::system("read the keys", &error))?;
                match event {
                    Event::Key(key) if key.kind != KeyEventKind::Release => match app.update(key) {
                        Action::None => {}
                        Action::Leave => return Ok(()),
                        Action::Revoke(name) => revocations.push(revoke(name)),
                    },
                    // After a change of size, the screen is drawn again.
                    _ => {}
                }
            }
        }
    }
}
