//! The guard that every kind wraps.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::engine::Engine;
use crate::engine::grant::Grant;
use crate::engine::part::Part;
use crate::engine::subscriptions::presence::Subscription;
use crate::engine::unreleased::Unreleased;
use crate::grant::lease::Lease;
use crate::grant::release::{self, failed_on, is_gone};
use crate::words::ending::{End, LossReason, Lost, Released};
use crate::words::error::{Error, Result};
use crate::words::store_error::StoreError;
use crate::words::token::FencingToken;

/// A held lock with all its parts: kinds wrap it in guards of their own. Dereferences to its [`Lease`].
///
/// Dropping it ends the validity of all its parts at once, and then releases them in the background. Dropping never
/// blocks, spawns or panics, and works outside of a runtime too.
#[must_use = "dropping a guard releases the lock"]
pub struct Hold {
    lease: Lease,
    /// In the order of acquiring; each element has the claims that one script acquired together.
    pub(super) claims: Vec<Unreleased>,
    subscriptions: Vec<Subscription>,
    /// The tracing span for the time of holding.
    pub(super) span: Span,
}

impl Hold {
    /// Begins a hold of these granted claims. `tokens` are their tokens, `waited` is how long the acquisition took, and
    /// `needs` is how many of the claims must stay valid.
    pub(crate) fn begin(
        claims: Vec<Unreleased>,
        tokens: Vec<FencingToken>,
        needs: usize,
        waited: Duration,
    ) -> Self {
        let engines = || {
            claims.iter().flat_map(|it| {
                let parts = it.parts.iter();
                parts.map(|part| (&it.engine, part))
            })
        };
        let parts = engines().map(|(_, part)| Arc::clone(part));
        let grant = Grant::new(needs, parts.zip(tokens).collect());
        let mut subscriptions = Vec::new();
        for (engine, part) in engines() {
            // Messages about the claim go to the client that made its owner, which may be another.
            let owner = part.id.owner();
            subscriptions.extend(engine.subscriptions.granted(&*part.protocol, owner));
        }
        grant.begin(waited);
        for (engine, part) in engines() {
            engine.subscriptions.proclaim(part);
            engine.subscriptions.annotate(part);
        }
        Self {
            lease: Lease::new(grant),
            claims,
            subscriptions,
            span: Span::none(),
        }
    }

    /// Joins holds that were acquired one after the other into one. For `min_hold` from now, its locks stay unavailable to
    /// others.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if one of the holds has been lost meanwhile: then all are released.
    pub(crate) fn join(holds: Vec<Self>, min_hold: Option<Duration>) -> Result<Self> {
        let (mut claims, mut subscriptions, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for mut hold in holds {
            let grant = hold.lease.grant();
            let tokens = (0..).map(|place| grant.token(place));
            parts.extend(grant.parts().cloned().zip(tokens));
            claims.append(&mut hold.claims);
            subscriptions.append(&mut hold.subscriptions);
        }
        let hold = Self {
            lease: Lease::new(Grant::new(parts.len(), parts)),
            claims,
            subscriptions,
            span: Span::none(),
        };
        // A later loss ends the whole hold; this sees an earlier one.
        hold.ensure_held()?;
        if let Some(shortest) = min_hold {
            for part in hold.lease.grant().parts() {
                let now = part.now();
                part.change(|claim| claim.cool_down_for(shortest, now));
            }
        }
        Ok(hold)
    }

    /// Gives the hold a tracing span as a child of its `caller`'s. The span ends with the hold and records how the hold
    /// ended.
    pub(crate) fn within_span(mut self, caller: &Span) -> Self {
        let (name, token) = (self.name(), self.fencing_token());
        let note = self.parts_and_engines().next();
        let note = note.and_then(|(part, _)| part.note.as_deref());
        self.span =
            tracing::info_span!(parent: caller, "hold", name, %token, note, outcome = Empty);
        self
    }

    /// Returns the lease, for guards that wrap this.
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The part of a lock on one server, and its engine.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for several locks, or one on several servers; [`Error::NotHeld`] if it has been released.
    pub(crate) fn only_part(&self) -> Result<(Arc<Part>, Arc<Engine>)> {
        let Some(claims) = self.claims.first() else {
            return Err(Error::not_held(self.name()));
        };
        match (self.claims.len(), &claims.parts[..], &claims.server) {
            (1, [part], None) => Ok((Arc::clone(part), Arc::clone(&claims.engine))),
            _ => Err(Error::config(
                "only a lock on one server can be re-entered or converted",
            )),
        }
    }

    /// Its parts, each with its engine.
    pub(crate) fn parts_and_engines(&self) -> impl Iterator<Item = (&Arc<Part>, &Engine)> {
        let claims = self.claims.iter();
        claims.flat_map(|it| it.parts.iter().map(|part| (part, &*it.engine)))
    }

    /// Ends the validity of all parts before anything is sent for one of them.
    fn end(&self) {
        self.lease.grant().release();
        for claims in self.claims.iter().rev() {
            claims.end();
        }
    }

    /// Releases the lock, in the reverse order of acquiring, and waits until the servers have confirmed it. It releases
    /// every part, even if others fail. For a lock on several servers it waits for a majority, and a little longer for
    /// the rest.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] if the lease was lost before;
    /// - [`Error::Backend`] if the server did not answer within the client's release timeout; for a lock on several
    ///   servers, if no majority did: the error names the servers that failed;
    /// - [`Error::Partial`] if some of several locks were not released: the error lists these.
    ///
    /// In every case the guard is gone and no part is valid any more; unanswered releases are repeated in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future has the same effect as dropping the guard.
    pub async fn release(self) -> Result<Released> {
        // Closing the client waits for a release in progress. It also waits for the releases that the guard posts if this
        // future is dropped, so the guard must be dropped before the passes. After closing, the closed store refuses a
        // release.
        let passes: Vec<_> = self
            .claims
            .iter()
            .map(|it| it.engine.enter().ok())
            .collect();
        let mut under_way = (self, passes);
        let (hold, _) = &mut under_way;
        hold.end();
        let released = hold.release_parts().await;
        let span = std::mem::replace(&mut hold.span, Span::none());
        span.record(
            "outcome",
            match &released {
                Ok(_) => "released",
                Err(Error::Lost { reason, .. }) => reason.as_str(),
                Err(_) => "unconfirmed",
            },
        );
        released
    }

    async fn release_parts(&self) -> Result<Released> {
        let grant = self.lease.grant();
        if let Some(End::Lost(lost)) = grant.end() {
            return Err(lost.into());
        }
        let needs = grant.needs();
        let mut outcomes = release::release_all(&self.claims, needs).await;
        if needs < grant.parts().len() || self.claims.iter().any(|it| it.server.is_some()) {
            return self.released_by_majority(outcomes);
        }
        match outcomes.len() {
            1 => outcomes
                .pop()
                .flatten()
                .unwrap_or_else(|| Err(Error::not_held(self.name()))),
            _ => self.released_all(outcomes),
        }
    }

    /// The joint outcome of all releases, or an error with those that failed.
    fn released_all(&self, outcomes: Vec<Option<Result<Released>>>) -> Result<Released> {
        let members = outcomes.len();
        let (mut released, mut failures) = (Released::Free, Vec::new());
        for (part, outcome) in self.lease.grant().parts().zip(outcomes) {
            match outcome.unwrap_or_else(|| Err(Error::not_held(part.name()))) {
                Ok(it) => released = released.and(it),
                Err(error) => failures.push((part.name().to_owned(), error)),
            }
        }
        match failures.is_empty() {
            true => Ok(released),
            false => Err(Error::Partial { members, failures }),
        }
    }

    fn released_by_majority(&self, outcomes: Vec<Option<Result<Released>>>) -> Result<Released> {
        let (needs, parts) = (self.lease.grant().needs(), outcomes.len());
        let (mut confirmed, mut gone, mut troubles) = (0, 0, Vec::new());
        for (claims, outcome) in self.claims.iter().zip(outcomes) {
            match outcome {
                Some(Ok(_)) => confirmed += 1,
                Some(Err(error)) if is_gone(&error) => gone += 1,
                Some(Err(Error::Backend { cause, .. })) => troubles.push((claims, cause)),
                Some(Err(other)) => {
                    troubles.push((claims, StoreError::unknown(other.to_string())));
                }
                None => {}
            }
        }
        if confirmed + gone < needs {
            let troubles = troubles.iter().map(|(claims, cause)| {
                let server = claims.server.as_deref().unwrap_or_default();
                (server, cause)
            });
            let all = needs * 2 - 1;
            return Err(failed_on(self.name(), all, "release", troubles.collect()));
        }
        // Fewer than a majority still had it: somebody else may have held meanwhile.
        if parts - gone < needs {
            let name = self.name().to_owned();
            let reason = LossReason::Gone;
            let server = None;
            return Err(Lost {
                name,
                server,
                reason,
            }
            .into());
        }
        Ok(Released::Free)
    }

    /// Runs `work` under the lock, and releases it afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease was lost before the work was complete: either the work was dropped at one of its await
    /// points, or you must not trust its result.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock.
    pub async fn within<F, T>(self, work: F) -> Result<T>
    where
        F: AsyncFnOnce(Lease) -> T,
    {
        let work = self.lease.run(work(self.lease.clone()));
        let output = work.instrument(self.span.clone()).await?;
        let Err(error) = self.release().await else {
            return Ok(output);
        };
        // The work was completed while the lease was valid, so an unconfirmed release is no failure: it is repeated in
        // the background. But a lock that was lost was not held to the end.
        match without_losses(error)? {
            error @ (Error::Backend { .. } | Error::Partial { .. }) => {
                tracing::warn!(%error, "the work is done, but not all of its locks are released yet");
                Ok(output)
            }
            error => Err(error),
        }
    }
}

/// Returns the error unchanged, as `Ok`. If it is about several locks and one of them was lost, returns that loss, as
/// `Err`.
fn without_losses(error: Error) -> Result<Error> {
    let Error::Partial { members, failures } = error else {
        return Ok(error);
    };
    let (lost, failures): (Vec<_>, Vec<_>) =
        failures.into_iter().partition(|(_, error)| is_gone(error));
    match lost.into_iter().next() {
        Some((_, lost)) => Err(lost),
        None => Ok(Error::Partial { members, failures }),
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // A hold that was joined to another has no claims.
        if !self.claims.is_empty() {
            self.end();
        }
        if !self.span.is_disabled() {
            let outcome = match self.lease.grant().end() {
                Some(End::Lost(lost)) => lost.reason.as_str(),
                _ => "released",
            };
            self.span.record("outcome", outcome);
        }
        while let Some(last) = self.claims.pop() {
            drop(last);
        }
    }
}

impl Deref for Hold {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hold").field(&self.lease).finish()
    }
}
