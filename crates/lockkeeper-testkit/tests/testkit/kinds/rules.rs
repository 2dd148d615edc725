//! Which claims may hold together, and which token a grant may have.

use std::time::Duration;

use lockkeeper_core::FencingToken;
use lockkeeper_testkit::kinds::{Claimant, Grant, Holder, KindModel, Mode, Standing};

const fn permits(permits: u8, limit: u8) -> Mode {
    Mode::Permits { permits, limit }
}

#[test]
fn only_claims_of_one_reentrant_owner_and_readers_hold_together() {
    let holder = |client, attempt, mode| Holder {
        claimant: Claimant { client, attempt },
        mode,
    };
    let fits = |kind: KindModel, one, other| kind.fits([one], other);
    let writer = |client, attempt| holder(client, attempt, Mode::Write);
    assert!(!fits(KindModel::MUTEX, writer(0, 0), writer(0, 1)));
    assert!(fits(KindModel::REENTRANT, writer(0, 0), writer(0, 1)));
    for kind in KindModel::ON_ONE_SERVER {
        let whole = |client| holder(client, 0, kind.largest());
        assert!(!fits(kind, whole(0), whole(1)), "{kind:?}");
        assert!(fits(kind, whole(0), whole(0)), "{kind:?}");
    }
    let reader = |client| holder(client, 0, Mode::Read);
    assert!(fits(KindModel::RWLOCK, reader(0), writer(0, 1)));
    assert!(fits(KindModel::RWLOCK, reader(0), reader(1)));
    assert!(!fits(KindModel::RWLOCK, reader(0), writer(1, 0)));
}

#[test]
fn permits_hold_together_up_to_the_limit() {
    let holder = |client, mode| Holder {
        claimant: Claimant { client, attempt: 0 },
        mode,
    };
    let [one, two] = [permits(1, 2), permits(2, 2)];
    let kind = KindModel::SEMAPHORE;
    assert!(kind.fits([holder(0, one)], holder(1, one)));
    assert!(!kind.fits([holder(0, one)], holder(1, two)));
    let both = [holder(0, one), holder(1, one)];
    assert!(!kind.fits(both, holder(2, one)));
    assert!(kind.fits_in(Some(3), both, holder(2, one)));
    assert!(!kind.fits_in(Some(1), [], holder(2, two)));
}

/// What the owner `a` and another grant hold at the same time: the other's owner, how each holds, and whether they have one token.
fn hold_together(kind: KindModel, other: &str, modes: [Mode; 2], one_token: bool) -> bool {
    let standing = |owner: &str, token, mode| Standing {
        owner: owner.to_owned(),
        token,
        mode,
        claims: Vec::new(),
    };
    let one = standing("a", 1, modes[0]);
    let other = standing(other, if one_token { 1 } else { 2 }, modes[1]);
    assert_eq!(kind.together(&one, &other), kind.together(&other, &one));
    kind.together(&one, &other)
}

#[test]
fn one_owner_holds_with_one_token_and_readers_hold_together() {
    let (read, write) = (Mode::Read, Mode::Write);
    for kind in KindModel::ON_ONE_SERVER {
        let whole = [kind.largest(); 2];
        assert_eq!(hold_together(kind, "b", whole, false), kind.has_permits());
        assert_eq!(
            hold_together(kind, "a", whole, true),
            kind.reenters || kind.has_permits()
        );
        // Only a kind with modes has readers, whatever its claims say.
        assert_eq!(
            hold_together(kind, "b", [read, read], true),
            kind.has_modes() || kind.has_permits()
        );
    }
    let kind = KindModel::RWLOCK;
    assert!(!hold_together(kind, "a", [write, write], false));
    assert!(hold_together(kind, "a", [write, read], false));
    assert!(!hold_together(kind, "b", [write, read], true));
}

fn grant((owner, claim): (&str, &str), token: u64, mode: Mode, from: u64) -> Grant {
    Grant {
        owner: owner.to_owned(),
        claim: claim.to_owned(),
        token,
        mode,
        from: Duration::from_secs(from),
        until: Duration::from_secs(from + 10),
    }
}

#[test]
fn tokens_grow_and_only_those_who_hold_together_share_one() {
    let (a, a2, b) = (("a", "a/1"), ("a", "a/2"), ("b", "b/1"));
    for kind in KindModel::ON_ONE_SERVER
        .into_iter()
        .filter(|it| !it.has_permits())
    {
        let mode = kind.largest();
        let last = grant(a, 5, mode, 0);
        let follows = |claim, token, from| kind.follows(&last, &grant(claim, token, mode, from));
        assert!(follows(b, 6, 1), "{kind:?}");
        assert!(!follows(b, 5, 1), "{kind:?}");
        assert!(!follows(b, 4, 20), "{kind:?}");
        assert!(follows(a, 5, 1), "a repeat: {kind:?}");
        assert_eq!(follows(a2, 5, 1), kind.reenters, "{kind:?}");
        // While the lease lasts, the same claim keeps its token, unless its owner has another one by now.
        assert_eq!(follows(a, 6, 1), kind.reenters, "{kind:?}");
        assert!(follows(a, 6, 20), "{kind:?}");
    }
    assert!(KindModel::REDLOCK.follows(&grant(a, 5, Mode::Write, 0), &grant(a, 6, Mode::Write, 1)));
    let (kind, read, write) = (KindModel::RWLOCK, Mode::Read, Mode::Write);
    let first = |mode| grant(a, 5, mode, 0);
    assert!(kind.follows(&first(read), &grant(b, 4, read, 1)));
    assert!(!kind.follows(&first(write), &grant(b, 4, read, 1)));
    assert!(kind.shares(&first(read), &grant(b, 5, read, 1)));
    assert!(!kind.shares(&first(read), &grant(b, 5, write, 1)));
    assert!(kind.shares(&first(write), &grant(a2, 5, read, 1)));
    assert!(!kind.shares(&first(write), &grant(b, 5, read, 1)));
    assert!(!KindModel::FAIR.follows(&first(read), &grant(b, 4, read, 1)));
    let permit = |claim| grant(claim, 5, permits(1, 2), 0);
    assert!(KindModel::SEMAPHORE.shares(&permit(a), &permit(a)));
    assert!(!KindModel::SEMAPHORE.shares(&permit(a), &permit(a2)));
}

#[test]
fn a_claim_is_passed_when_a_larger_token_has_been_granted_to_another() {
    let holder = |client| {
        let claimant = Claimant { client, attempt: 0 };
        let mode = Mode::Write;
        Holder { claimant, mode }
    };
    let token = FencingToken::new;
    let held = (holder(0), token(5));
    for (last, grantee, passed) in [
        (5, holder(0), false),
        (6, holder(0), false),
        (4, holder(1), false),
        (6, holder(1), true),
    ] {
        let later = (grantee, token(last));
        assert_eq!(KindModel::MUTEX.is_passed(held, later), passed, "{later:?}");
    }
}
