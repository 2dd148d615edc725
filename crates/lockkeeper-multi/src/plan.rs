//! Decides which members are taken together, and in which order. Pure: it turns facts into an order that is the same
//! in every process.
//!
//! A caller keeps the members that it has while it waits for the next one. If all callers take members in the same
//! order, they never wait for each other in a circle. One script takes the members of one step together. If it finds
//! one of them held, the caller waits for the members of that step one by one, in their order. So all callers must
//! agree on the order of all members, not only of the steps: by the name of the store, then the group, then the key.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The most members in one step: a script must not block its server for long. This many take some milliseconds.
pub(crate) const LARGEST_STEP: usize = 1024;

/// The facts that decide the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts<O> {
    /// What the store is called, if it has a name.
    pub(crate) store: Option<String>,
    /// The client of the member.
    pub(crate) client: u128,
    /// The group of its key: a script can only use keys of one group.
    pub(crate) group: u32,
    pub(crate) key: String,
    /// Its kind and mode, or the number of permits it asks for.
    pub(crate) mode: Cow<'static, str>,
    pub(crate) owner: Option<O>,
}

/// Why there is no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no member.
    Empty,
    /// There are several clients, and one has a store without a name; this is the key of its member.
    Unnamed(String),
    /// Two clients have stores with this name.
    SharedName(String),
    /// Two members with this key differ.
    Conflict(String),
    /// A step has too many members: this many.
    TooMany(usize),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a multi-lock needs at least one member"),
            Self::Unnamed(key) => write!(
                f,
                "the members belong to several clients, and the store of {key:?} has no name: give each client a store_name, the same in every process"
            ),
            Self::SharedName(store) => write!(
                f,
                "two clients have the store name {store:?}: take all members on one store from one client, and give each store its own name"
            ),
            Self::Conflict(key) => write!(
                f,
                "two members with the key {key:?} differ in kind, mode, permits or owner: list only one of them"
            ),
            Self::TooMany(members) => write!(
                f,
                "one script would acquire {members} members, at most {LARGEST_STEP} are allowed: use fewer members"
            ),
        }
    }
}

/// Returns the steps in which to take members with these facts: which of them together, and in which order. Of equal
/// members, only the first is taken.
pub(crate) fn plan<O: PartialEq>(members: &[Facts<O>]) -> Result<Vec<Vec<usize>>, Refusal> {
    check_stores(members)?;
    let mut steps: BTreeMap<(Option<&str>, u32), BTreeMap<&str, usize>> = BTreeMap::new();
    let mut seen: BTreeMap<(u128, &str), &Facts<O>> = BTreeMap::new();
    for (at, facts) in members.iter().enumerate() {
        if let Some(before) = seen.insert((facts.client, &facts.key), facts) {
            if before != facts {
                return Err(Refusal::Conflict(facts.key.clone()));
            }
            continue;
        }
        let place = (facts.store.as_deref(), facts.group);
        steps.entry(place).or_default().insert(&facts.key, at);
    }
    let steps: Vec<Vec<usize>> = steps
        .into_values()
        .map(|step| step.into_values().collect())
        .collect();
    match steps.iter().map(Vec::len).max() {
        None => Err(Refusal::Empty),
        Some(most) if most > LARGEST_STEP => Err(Refusal::TooMany(most)),
        Some(_) => Ok(steps),
    }
}

/// Checks that, if there are several clients, each has a store with a name of its own.
fn check_stores<O>(members: &[Facts<O>]) -> Result<(), Refusal> {
    let clients: BTreeMap<u128, &Facts<O>> = members.iter().map(|it| (it.client, it)).collect();
    if clients.len() < 2 {
        return Ok(());
    }
    let mut names: BTreeMap<&str, u128> = BTreeMap::new();
    for facts in clients.values() {
        let Some(name) = &facts.store else {
            return Err(Refusal::Unnamed(facts.key.clone()));
        };
        if names.insert(name, facts.client).is_some() {
            return Err(Refusal::SharedName(name.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::subsequence;

    use super::*;

    type Fact = Facts<u8>;

    fn fact(store: u8, key: &str) -> Fact {
        // Kind and group follow from the key, so they are the same in every process.
        let number = key.bytes().map(usize::from).sum::<usize>();
        let modes = ["mutex", "reentrant", "fair", "rwlock/read", "rwlock/write"];
        let mode = modes[number % modes.len()];
        Facts {
            store: Some(format!("store-{store}")),
            client: u128::from(store),
            group: u32::try_from(number / 7 % 3).unwrap(),
            key: key.to_owned(),
            mode: mode.into(),
            owner: None,
        }
    }

    /// Members on up to three stores, in any order, some of them twice.
    fn members() -> impl Strategy<Value = Vec<Fact>> {
        let member = (0..3u8, "[a-f]{1,2}").prop_map(|(store, key)| fact(store, &key));
        proptest::collection::vec(member, 1..20)
    }

    /// The steps by the names of their members.
    fn named<'a>(steps: &[Vec<usize>], members: &'a [Fact]) -> Vec<Vec<(u128, &'a str)>> {
        let name = |&at: &usize| (members[at].client, &*members[at].key);
        steps
            .iter()
            .map(|step| step.iter().map(name).collect())
            .collect()
    }

    /// The step in which every caller takes this member.
    const fn level(fact: &Fact) -> (u128, u32) {
        (fact.client, fact.group)
    }

    proptest! {
        #[test]
        fn every_member_is_taken_once(members in members()) {
            let steps = plan(&members).unwrap();
            let mut taken: Vec<_> = named(&steps, &members).concat();
            taken.sort_unstable();
            let mut asked: Vec<_> = members.iter().map(|it| (it.client, &*it.key)).collect();
            asked.sort_unstable();
            asked.dedup();
            prop_assert_eq!(taken, asked);
        }

        #[test]
        fn the_order_of_naming_changes_nothing(members in members(), seed in any::<u64>()) {
            let mut shuffled = members.clone();
            let mut state = seed | 1;
            for at in (1..shuffled.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                shuffled.swap(at, usize::try_from(state >> 33).unwrap() % (at + 1));
            }
            let (one, other) = (plan(&members).unwrap(), plan(&shuffled).unwrap());
            prop_assert_eq!(named(&one, &members), named(&other, &shuffled));
        }

        /// So a caller that holds one member never waits for another one whose holder waits for the first.
        #[test]
        fn whoever_takes_two_members_takes_them_in_the_same_order(
            (all, part) in members().prop_flat_map(|all| {
                let count = all.len();
                (Just(all.clone()), subsequence(all, 1..=count))
            })
        ) {
            let order = |members: &[Fact]| -> Vec<(u128, String)> {
                let steps = plan(members).unwrap().concat();
                steps.iter().map(|&at| (members[at].client, members[at].key.clone())).collect()
            };
            let (all, part) = (order(&all), order(&part));
            let shared: Vec<_> = all.into_iter().filter(|member| part.contains(member)).collect();
            prop_assert_eq!(shared, part);
        }

        #[test]
        fn a_step_of_several_is_what_one_script_can_take(members in members()) {
            for step in plan(&members).unwrap() {
                let first = &members[step[0]];
                for &at in &step[1..] {
                    let other = &members[at];
                    prop_assert_eq!((first.client, first.group), (other.client, other.group));
                }
            }
        }

        #[test]
        fn what_can_be_taken_together_is(members in members()) {
            let steps = plan(&members).unwrap();
            let mut groups: Vec<_> = steps.iter().map(|step| level(&members[step[0]])).collect();
            let count = groups.len();
            groups.sort_unstable();
            groups.dedup();
            prop_assert_eq!(groups.len(), count);
        }
    }

    #[test]
    fn members_come_by_store_and_group_and_key() {
        let fact = |store: &str, key: &str, group| Facts::<u8> {
            store: Some(store.to_owned()),
            client: u128::from(store.as_bytes()[0]),
            group,
            key: key.to_owned(),
            mode: "mutex".into(),
            owner: None,
        };
        let members = [
            fact("south", "a", 0),
            fact("north", "c", 2),
            fact("north", "b", 9),
            fact("north", "a", 2),
        ];
        assert_eq!(plan(&members).unwrap(), [vec![3, 1], vec![2], vec![0]]);
    }

    #[test]
    fn what_differs_under_one_key_is_refused_and_what_is_equal_merged() {
        let one = fact(0, "a");
        assert_eq!(plan(&[one.clone(), one.clone()]).unwrap(), [vec![0]]);
        let owned = Facts {
            owner: Some(7),
            ..one.clone()
        };
        let other = Facts {
            mode: "rwlock/read".into(),
            ..one.clone()
        };
        for differs in [owned, other] {
            let refused = plan(&[one.clone(), differs]).unwrap_err();
            assert_eq!(refused, Refusal::Conflict("a".to_owned()));
        }
        // The same key on another store is another lock.
        assert_eq!(plan(&[one, fact(1, "a")]).unwrap().len(), 2);
    }

    #[test]
    fn several_stores_need_names_and_each_its_own() {
        let (one, other) = (fact(0, "a"), fact(1, "b"));
        let unnamed = Facts {
            store: None,
            ..other.clone()
        };
        assert_eq!(
            plan(&[one.clone(), unnamed.clone()]).unwrap_err(),
            Refusal::Unnamed("b".to_owned())
        );
        assert!(plan(&[unnamed]).is_ok());
        let same = Facts {
            store: one.store.clone(),
            ..other
        };
        assert_eq!(
            plan(&[one, same]).unwrap_err(),
            Refusal::SharedName("store-0".to_owned())
        );
    }

    #[test]
    fn no_member_and_too_many_are_refused() {
        assert_eq!(plan::<u8>(&[]).unwrap_err(), Refusal::Empty);
        let many = |count: usize| -> Vec<Fact> {
            let member = |number| Facts {
                key: format!("{number}"),
                group: 0,
                ..fact(0, "a")
            };
            (0..count).map(member).collect()
        };
        assert_eq!(plan(&many(LARGEST_STEP)).unwrap().len(), 1);
        assert_eq!(
            plan(&many(LARGEST_STEP + 1)).unwrap_err(),
            Refusal::TooMany(LARGEST_STEP + 1)
        );
    }
}
