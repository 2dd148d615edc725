//! The next steps: every step that a state allows.
//!
//! A request goes well or is in trouble. A request that goes well is sent, executed and answered in one step. A request in
//! trouble uses up a fault, and then anything can happen: it is executed at once, later or never; its answer arrives, late or
//! never; it is given up, refused or not sent. Once given up, it may be executed at any time, any number of times. Treating a
//! request that goes well as one step loses nothing: only others could act between its parts, and they cannot tell when within
//! the tick it was sent, nor does a late answer help them.
//!
//! The steps allow more than the engine does, never less: a waiter may poll, a holder may renew and any claim may end at any
//! moment, and requests overtake one another. The engine's own [`Claim`](lockkeeper_core::claim::Claim) decides what they may
//! *not* do.

use std::time::Duration;

use anyhow::Result;
use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::Validity;
use lockkeeper_core::protocol::Answer;
use lockkeeper_core::store::Outcome;

use super::change::{Change, Event};
use super::send::Sending;
use super::standing::{Run, Standing, Stands};
use super::state::{Asked, Attempt, Client, Message, Question, Reply, State, Told};
use super::{Incident, OneName, TICKS};
use crate::kinds::{Claimant, letter};
use crate::search::explore::Moves;
use crate::search::rule::{Rule, Violation};
use crate::search::state::UnderWay;

impl OneName {
    /// Adds everything that one attempt can do or that can happen to it.
    pub(super) fn moves_of(
        &mut self,
        state: State,
        claimant: Claimant,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let client = self.client(state, claimant.client);
        let number = claimant.attempt;
        for &asked in client[number].requests.in_doubt.iter() {
            let sender = state.clients[usize::from(claimant.client)];
            let (run, next, broken) = self.execute(state, sender, claimant, asked, true)?;
            let step = || {
                format!(
                    "the server executes {asked} of {claimant} late, which was given up: {}",
                    run.told
                )
            };
            moves.add(step, next, broken);
        }
        self.under_way(state, &client, claimant, moves)?;
        for &message in client[number].messages.iter() {
            let told = Change::Of(number, Event::Told(message, state.tick));
            let mut next = self.change(state, claimant.client, told);
            if next != state {
                let changed = self.client(next, claimant.client);
                let broken = valid_again(&client[number], &changed[number], claimant, state.tick);
                let changed = &mut next.clients[usize::from(claimant.client)];
                *changed = self.raise_floor(*changed, message.token);
                let step = || {
                    format!(
                        "{claimant} hears by a message that it was granted {} as of its request no. {}",
                        message.token, message.request
                    )
                };
                moves.add(step, next, broken);
            }
        }
        self.proclamations(state, claimant, moves)?;
        self.of_its_own(state, &client, claimant, moves)
    }

    /// Adds the fates of a request in trouble.
    fn under_way(
        &mut self,
        state: State,
        client: &Client,
        claimant: Claimant,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let Some(UnderWay { asked, reply }) = client[claimant.attempt].requests.under_way else {
            return Ok(());
        };
        let sender = state.clients[usize::from(claimant.client)];
        if let Some(reply) = reply {
            let (mut next, mut changed) = (state, sender);
            let broken = self.hears(&mut changed, claimant, reply, state.tick);
            next.clients[usize::from(claimant.client)] = changed;
            moves.add(|| format!("{claimant} hears {}", reply.0), next, broken);
        } else {
            let (run, next, broken) = self.execute(state, sender, claimant, asked, false)?;
            let step = || format!("the server executes {asked} of {claimant}: {}", run.told);
            moves.add(step, next, broken);
        }
        let mut fails = |outcome, what| {
            let failed = Change::Of(claimant.attempt, Event::Failed(outcome, state.tick));
            let next = self.change(state, claimant.client, failed);
            moves.add(|| format!("{claimant}'s {asked} {what}"), next, None);
        };
        if reply.is_some() {
            fails(Outcome::Unknown, "is given up: the reply is lost");
        } else {
            fails(Outcome::Unknown, "is given up, and may be executed later");
            fails(Outcome::NotSent, "turns out not to have been sent");
            fails(Outcome::Refused, "is refused by the server");
        }
        Ok(())
    }

    /// Adds what a client can do for one of its attempts without outside cause.
    fn of_its_own(
        &mut self,
        state: State,
        client: &Client,
        claimant: Claimant,
        moves: &mut Moves<State>,
    ) -> Result<()> {
        let (number, now) = (claimant.attempt, state.tick);
        let attempt = &client[number];
        let place = usize::from(claimant.client);
        let sender = state.clients[place];
        let mut sends = Vec::new();
        let first = self.kind.modes.iter().copied().map(Sending::First);
        let takes = (0..number).map(Sending::Takes);
        let others = [
            Sending::Again,
            Sending::Heartbeat,
            Sending::Renewal,
            Sending::Release,
        ];
        for sending in first.chain(takes).chain(others) {
            let sent = self.send(sender, number, sending, now);
            sends.extend(sent.map(|(asked, sent)| (asked, sending, sent)));
        }
        let lives = attempt.claim().is_some_and(|claim| {
            claim.deadline().is_some() || claim.validity(TICKS.moment(now)) == Validity::NotYet
        });
        if lives {
            let ended = self.changed(sender, Change::Of(number, Event::End(now)));
            let release = self.send(ended, number, Sending::Release, now);
            // The release goes out at once. A later release equals a longer hold, unless an answer comes in between, or another
            // attempt takes the claim's place.
            let waits = attempt.requests.under_way.is_some() || self.kind.hands_over;
            if release.is_none() || waits {
                let mut next = state;
                next.clients[place] = ended;
                moves.add(
                    || format!("{claimant} lets go: it is not valid any more"),
                    next,
                    None,
                );
            }
            sends.extend(release.map(|(asked, sent)| (asked, Sending::LetsGo, sent)));
        }
        for (asked, sending, mut changed) in sends {
            if state.faults < self.bounds.faults {
                let mut next = state;
                next.clients[place] = changed;
                next.faults += 1;
                let step = || format!("{claimant} {sending}sends {asked}, which is on its way");
                moves.add(step, next, None);
            }
            let mut next = state;
            let (run, mut broken) = self.run(&mut next, &mut changed, claimant, asked, false)?;
            let under_way = self.clients.value(changed)[number].requests.under_way;
            if let Some(reply) = under_way.and_then(|it| it.reply) {
                let heard = self.hears(&mut changed, claimant, reply, now);
                broken = broken.or(heard);
            }
            let next = self.after_run(next, changed, claimant, &run);
            let step = || format!("{claimant} {sending}sends {asked}, and hears {}", run.told);
            moves.add(step, next, broken);
        }
        Ok(())
    }

    /// Adds the ways for a client to end, and what can happen to the name.
    pub(super) fn endings(&mut self, state: State, moves: &mut Moves<State>) -> Result<()> {
        if state.endings == self.bounds.endings {
            return Ok(());
        }
        let ending = State {
            endings: state.endings + 1,
            ..state
        };
        for number in 0..self.bounds.clients {
            let ends = [
                (Change::Close(state.tick), "is closed"),
                (Change::Crash, "crashes"),
            ];
            for (change, what) in ends {
                let next = self.change(ending, number, change);
                if next != ending {
                    moves.add(|| format!("client {} {what}", letter(number)), next, None);
                }
            }
        }
        match self.bounds.incident {
            Some(incident) => self.incident(incident, ending, moves),
            None => Ok(()),
        }
    }

    /// Executes one request on the server; `late` if it was given up.
    pub(super) fn execute(
        &mut self,
        state: State,
        mut client: u32,
        claimant: Claimant,
        asked: Asked,
        late: bool,
    ) -> Result<(Run, State, Option<Violation>)> {
        let mut next = state;
        let (run, broken) = self.run(&mut next, &mut client, claimant, asked, late)?;
        let next = self.after_run(next, client, claimant, &run);
        Ok((run, next, broken))
    }

    /// Runs a script and sends its reply.
    fn run(
        &mut self,
        state: &mut State,
        client: &mut u32,
        claimant: Claimant,
        asked: Asked,
        late: bool,
    ) -> Result<(Run, Option<Violation>)> {
        let run = self.runs.run(state.server, state.tick, claimant, asked)?;
        let after = self.runs.standing(run.server, state.tick)?;
        self.note_cooldown(state, claimant, asked, &after)?;
        let before = *state;
        let mut broken = None;
        if self.kind.has_permits() {
            let asks = Some((claimant, asked.mode));
            let limit;
            (limit, broken) = self.judge_permits(state, &after, None, asks)?;
            let was_over = self.clients.value(*client)[claimant.attempt].over_limit;
            let Stands { left, queued, .. } = after[claimant];
            let lost = was_over || self.is_over_limit(before, limit, &after, claimant)?;
            let is_over = Event::OverLimit(lost && left.is_none() && queued.is_none());
            *client = self.changed(*client, Change::Of(claimant.attempt, is_over));
        }
        broken = broken.or(self.judge_messages(state, &after, &run)?);
        if let Told::Answer(Answer::Granted(token)) = run.told {
            let converts = matches!(asked.question, Question::Convert { .. });
            // Every grant of permits has a token of its own, and those that messages announce are checked.
            let known = match self.kind.has_permits() {
                true => *state,
                false => before,
            };
            let told = |(grantee, message): &(Claimant, Message)| {
                *grantee == claimant && message.token == token && self.kind.has_permits()
            };
            if !run.grants.iter().any(told) {
                let judged = self.judge_grant(known, &after, (claimant, token), converts)?;
                broken = broken.or(judged);
            }
            state.note_grant(claimant, asked.mode, token);
        }
        if !late {
            let lost =
                self.lost_to_itself(&self.clients.value(*client), claimant, run.told, &after);
            broken = broken.or(lost);
        }
        broken = broken.or(self.judge_revival(*state, claimant, asked, run.told)?);
        broken = broken.or(self.judge_end(*state, claimant, asked, run.told)?);
        broken = broken.or(self.judge_record(before, claimant, asked, &run)?);
        broken = broken.or(self.judge_barred(*state, claimant, asked, &run)?);
        if let Question::Release { .. } = asked.question {
            broken = broken.or(self.judge_wake(*state, &run)?);
        }
        broken = broken.or(self.judge_queue(*state, claimant, asked, &run)?);
        if self.runs.standing(before.server, state.tick)?.is_free() && !after.is_free() {
            // What the other claims were told to wait for has ended by itself: they poll when that time is over.
            for number in 0..self.bounds.clients {
                *state = self.change(*state, number, Change::Wake);
            }
            *client = self.changed(*client, Change::Wake);
        }
        self.forget_revoked(state, (claimant.client, client), &after);
        state.server = run.server;
        let until = self.released_until(claimant, asked, state.tick);
        if late {
            let overtaken = Event::Overtaken(asked, run.told, state.tick);
            *client = self.changed(*client, Change::Of(claimant.attempt, overtaken));
            return Ok((run, broken));
        }
        let mut told = run.told;
        // The claim does not care how long, or how many are in front: all such answers are equal.
        match &mut told {
            Told::Answer(Answer::Busy(left)) => *left = None,
            Told::Answer(Answer::Waiting { place, left }) => (*place, *left) = (1, None),
            Told::Answer(Answer::Cooldown { left, .. }) => *left = Duration::ZERO,
            _ => {}
        }
        let executed = Event::Executed((told, until));
        *client = self.changed(*client, Change::Of(claimant.attempt, executed));
        Ok((run, broken))
    }

    /// Checks and records the grants that a run has announced by messages.
    pub(super) fn judge_messages(
        &mut self,
        state: &mut State,
        after: &Standing,
        run: &Run,
    ) -> Result<Option<Violation>> {
        let before = *state;
        let mut broken = None;
        for &(grantee, message) in &*run.grants {
            let known = match self.kind.has_permits() {
                true => *state,
                false => before,
            };
            let judged = self.judge_grant(known, after, (grantee, message.token), false)?;
            broken = broken.or(judged);
            state.note_grant(grantee, after[grantee].mode, message.token);
        }
        Ok(broken)
    }

    /// Delivers the reply to its client.
    fn hears(
        &mut self,
        client: &mut u32,
        claimant: Claimant,
        reply: Reply,
        now: u8,
    ) -> Option<Violation> {
        if let Told::Answer(Answer::Granted(token)) = reply.0 {
            *client = self.raise_floor(*client, token);
        }
        let (number, before) = (claimant.attempt, self.clients.value(*client));
        *client = self.changed(*client, Change::Of(number, Event::Heard(now)));
        let after = self.clients.value(*client);
        valid_again(&before[number], &after[number], claimant, now)
    }

    fn raise_floor(&mut self, client: u32, token: FencingToken) -> u32 {
        match self.bounds.clock_behind && self.bounds.incident == Some(Incident::CounterLost) {
            true => self.changed(client, Change::RaiseFloor(token)),
            false => client,
        }
    }

    fn after_run(&mut self, mut state: State, client: u32, claimant: Claimant, run: &Run) -> State {
        state.clients[usize::from(claimant.client)] = client;
        self.publish(state, run)
    }

    /// Publishes the messages of a run.
    pub(super) fn publish(&mut self, mut state: State, run: &Run) -> State {
        for &(grantee, message) in &*run.grants {
            let published = Event::Published(message, state.tick);
            let published = Change::Of(grantee.attempt, published);
            state = self.change(state, grantee.client, published);
        }
        // Notifications need not arrive late or never: a waiter may poll at any moment anyway.
        for number in (0..self.bounds.clients).filter(|_| run.woke) {
            state = self.change(state, number, Change::Wake);
        }
        state
    }

    /// Until when the server must have nothing of a claim after this release: while its tombstone lives, or for ever if no
    /// acquire of it is unanswered.
    fn released_until(&self, claimant: Claimant, asked: Asked, tick: u8) -> u8 {
        match asked.question {
            Question::Release { overtakes: true }
            | Question::Convert {
                overtakes: true, ..
            } => tick + self.bounds.leases[usize::from(claimant.attempt)] - 1,
            Question::Release { overtakes: false } | Question::Convert { .. } => u8::MAX,
            _ => 0,
        }
    }

    /// Advances time, for the server and the clients alike.
    pub(super) fn tick(&mut self, mut state: State) -> State {
        state.tick += 1;
        let now = state.tick;
        state.cools_until = state.cools_until.filter(|until| *until > TICKS.moment(now));
        state.server = self.runs.later(state.server, now);
        for number in 0..self.bounds.clients {
            state = self.change(state, number, Change::Time(now));
        }
        state
    }
}

fn valid_again(
    before: &Attempt,
    after: &Attempt,
    claimant: Claimant,
    now: u8,
) -> Option<Violation> {
    let again = before.is_valid(now) == Some(false) && after.is_valid(now) == Some(true);
    again.then(|| Rule::ValidAgain.broken(claimant))
}
