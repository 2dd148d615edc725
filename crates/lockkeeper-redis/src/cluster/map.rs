//! Which node has which slot. Pure: statements of nodes go in, the node to send to comes out.
//!
//! Nodes do not learn of a change at the same time, and one that was cut off, or stopped for a while, repeats the old state. Every
//! claim to a slot carries the claimant's *configuration epoch*, by which the nodes themselves decide who has the slot: the larger
//! one wins. The map uses the same rule, so an old answer cannot undo a newer one. `CLUSTER NODES` is the only command that shows
//! the epochs in every version.

use std::collections::BTreeMap;

use crate::seeds::Endpoint;

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16_384;

/// The number of a node in the map; it never changes.
pub(crate) type NodeId = u32;

/// Whether nodes are reached by the host names that they announce, or by their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Name,
    Address,
}

/// What one node says about all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View(Vec<Member>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    /// Where to reach it.
    endpoint: Endpoint,
    /// Its other endpoint: by its name if it is reached by its address, or the other way round.
    alias: Option<Endpoint>,
    epoch: u64,
    /// First and last slot of each range.
    slots: Vec<(u16, u16)>,
}

/// The map. Empty at first.
#[derive(Debug)]
pub(crate) struct Map {
    endpoints: Vec<Endpoint>,
    /// The other endpoints of nodes, by the latest statement of any node.
    aliases: BTreeMap<Endpoint, NodeId>,
    owners: Vec<Option<Owner>>,
    /// Every node that the last view named, including replicas.
    members: Vec<NodeId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    node: NodeId,
    epoch: u64,
}

impl View {
    /// Reads the answer of `asked` to `CLUSTER NODES`; `None` if it is no such answer.
    pub(crate) fn read(text: &str, asked: &Endpoint, by: By) -> Option<Self> {
        let lines = text.lines().filter(|line| !line.is_empty());
        let members: Option<Vec<Option<Member>>> =
            lines.map(|line| member(line, asked, by)).collect();
        let members: Vec<Member> = members?.into_iter().flatten().collect();
        (!members.is_empty()).then_some(Self(members))
    }
}

/// `<id> <ip:port@bus[,hostname[,…]]> <flags> <primary> <ping> <pong> <epoch> <link> <slot> <first-last> …`. The inner `None` is a
/// node that cannot be reached by anyone.
fn member(line: &str, asked: &Endpoint, by: By) -> Option<Option<Member>> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, address, flags, _, _, _, epoch, _, slots @ ..] = &words[..] else {
        return None;
    };
    if flags
        .split(',')
        .any(|flag| flag == "noaddr" || flag == "handshake")
    {
        return Some(None);
    }
    let mut parts = address.split(',');
    let address = parts.next()?.split('@').next()?;
    let address = Endpoint::read(address, asked)?;
    // More facts may follow, as in `shard-id=…`.
    let name = parts
        .next()
        .filter(|name| !matches!(*name, "" | "?") && !name.contains('='));
    let name = name.map(|name| Endpoint {
        host: name.to_owned(),
        port: address.port,
    });
    let (endpoint, alias) = match (name, by) {
        (Some(name), By::Name) => (name, Some(address)),
        (name, _) => (address, name),
    };
    let primary = flags.split(',').any(|flag| flag == "master");
    // In brackets: a migrating slot, which its owner also lists among its own.
    let slots = slots
        .iter()
        .filter(|slot| primary && !slot.starts_with('['));
    let slots: Option<Vec<(u16, u16)>> = slots.map(|slot| range(slot)).collect();
    Some(Some(Member {
        endpoint,
        alias,
        epoch: epoch.parse().ok()?,
        slots: slots?,
    }))
}

fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < SLOTS).then_some((first, last))
}

impl Map {
    pub(crate) fn new() -> Self {
        Self {
            endpoints: Vec::new(),
            aliases: BTreeMap::new(),
            owners: vec![None; SLOTS.into()],
            members: Vec::new(),
        }
    }

    /// The node that has a slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<NodeId> {
        self.owners[usize::from(slot % SLOTS)].map(|owner| owner.node)
    }

    /// Every node that has a slot, in the order of their numbers.
    pub(crate) fn primaries(&self) -> Vec<NodeId> {
        let mut has = vec![false; self.endpoints.len()];
        for owner in self.owners.iter().flatten() {
            has[owner.node as usize] = true;
        }
        let has = has.into_iter().enumerate().filter(|(_, has)| *has);
        has.filter_map(|(node, _)| node.try_into().ok()).collect()
    }

    /// How many slots have no node.
    pub(crate) fn unserved(&self) -> usize {
        self.owners.iter().filter(|owner| owner.is_none()).count()
    }

    /// Where a node listens.
    pub(crate) fn endpoint(&self, node: NodeId) -> Option<&Endpoint> {
        self.endpoints.get(node as usize)
    }

    /// Where to ask when no node answers: every node that was named, including replicas.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Endpoint> {
        self.members.iter().filter_map(|&node| self.endpoint(node))
    }

    /// The number of the node with this endpoint or alias; a new number if it is unknown.
    pub(crate) fn node_at(&mut self, endpoint: &Endpoint) -> NodeId {
        let known = self.aliases.get(endpoint).copied();
        known.unwrap_or_else(|| self.node_reached_at(endpoint))
    }

    fn node_reached_at(&mut self, endpoint: &Endpoint) -> NodeId {
        let known = self.endpoints.iter().position(|known| known == endpoint);
        let node = known.unwrap_or_else(|| {
            self.endpoints.push(endpoint.clone());
            self.endpoints.len() - 1
        });
        NodeId::try_from(node).unwrap_or(NodeId::MAX)
    }

    /// A node has said which node has the slot. That holds until a view says otherwise.
    pub(crate) fn hint(&mut self, slot: u16, endpoint: &Endpoint) -> NodeId {
        let node = self.node_at(endpoint);
        let owner = &mut self.owners[usize::from(slot % SLOTS)];
        let epoch = owner.map_or(0, |owner| owner.epoch);
        *owner = Some(Owner { node, epoch });
        node
    }

    /// Merges what a node says; returns whether a slot has a new owner.
    pub(crate) fn merge(&mut self, view: &View) -> bool {
        let members = view.0.iter();
        self.members = members
            .map(|it| self.node_reached_at(&it.endpoint))
            .collect();
        for (member, node) in view.0.iter().zip(&self.members) {
            if let Some(alias) = &member.alias {
                self.aliases.insert(alias.clone(), *node);
            }
        }
        let mut changed = false;
        for (member, node) in view.0.iter().zip(self.members.clone()) {
            for slot in member.slots.iter().flat_map(|&(first, last)| first..=last) {
                changed |= self.claim(slot, node, member.epoch);
            }
        }
        changed
    }

    /// A node claims a slot, with an epoch; returns whether that is news.
    fn claim(&mut self, slot: u16, node: NodeId, epoch: u64) -> bool {
        let owner = &mut self.owners[usize::from(slot)];
        let before = *owner;
        match before {
            Some(current) if current.node == node => {
                *owner = Some(Owner {
                    node,
                    epoch: epoch.max(current.epoch),
                });
                return false;
            }
            // Unless the cluster has forgotten the node whose epoch is larger.
            Some(current) if current.epoch > epoch && self.members.contains(&current.node) => {
                return false;
            }
            _ => *owner = Some(Owner { node, epoch }),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(port: u16) -> Endpoint {
        Endpoint {
            host: "10.0.0.1".to_owned(),
            port,
        }
    }

    fn view(nodes: &[(u16, u64, &str)]) -> View {
        let line = |(port, epoch, slots): &(u16, u64, &str)| {
            format!("id{port} 10.0.0.1:{port}@1{port},, master - 0 0 {epoch} connected {slots}\n")
        };
        let text = nodes.iter().map(line).collect::<String>();
        View::read(&text, &at(1), By::Address).unwrap()
    }

    fn owner(map: &Map, slot: u16) -> Option<u16> {
        map.endpoint(map.owner(slot)?).map(|endpoint| endpoint.port)
    }

    #[test]
    fn an_answer_of_a_real_server_is_read() {
        // redis-server 7.0.15, with a migrating slot and one node down.
        let text = "\
            07c37df 127.0.0.1:30004@31004,hostname4 slave e7d1eec 0 1426238317239 4 connected\n\
            67ed2db 127.0.0.1:30002@31002,,shard-id=x master - 0 1426238316232 2 connected 5461-10922\n\
            292f8b3 ::1:30003@31003 master,fail - 0 1426238318243 3 connected 10923-16382 16383\n\
            6ec2392 :0@0 master,noaddr - 0 0 0 disconnected\n\
            e7d1eec :30001@31001 myself,master - 0 0 1 connected 0-5460 [93-<-67ed2db]\n";
        let mut map = Map::new();
        let asked = Endpoint {
            host: "here".to_owned(),
            port: 30001,
        };
        assert!(map.merge(&View::read(text, &asked, By::Address).unwrap()));
        let shown = |slot| map.endpoint(map.owner(slot).unwrap()).unwrap().to_string();
        assert_eq!(shown(93), "here:30001");
        assert_eq!(shown(5461), "127.0.0.1:30002");
        assert_eq!(shown(16_383), "[::1]:30003");
        assert_eq!((map.unserved(), map.members().count()), (0, 4));
        assert_eq!(map.primaries().len(), 3);
    }

    #[test]
    fn what_is_no_such_answer_is_none() {
        for text in [
            "",
            "ERR This instance has cluster support disabled",
            "a b c d e f g h 1-2-3",
        ] {
            assert_eq!(View::read(text, &at(1), By::Address), None, "{text}");
        }
        let beyond = "id 10.0.0.1:1@2 master - 0 0 1 connected 16384";
        assert_eq!(View::read(beyond, &at(1), By::Address), None);
    }

    #[test]
    fn a_node_is_one_by_its_name_and_by_its_address() {
        let text = "\
            a 10.0.0.1:1@11,one.example,shard-id=x myself,master - 0 0 1 connected 0-9\n\
            b 10.0.0.2:2@12,?,shard-id=y master - 0 0 2 connected 10-19\n\
            c 10.0.0.3:3@13,shard-id=z slave b 0 0 2 connected\n";
        for (by, first) in [(By::Name, "one.example:1"), (By::Address, "10.0.0.1:1")] {
            let mut map = Map::new();
            map.merge(&View::read(text, &at(9), by).unwrap());
            let shown: Vec<String> = map.members().map(ToString::to_string).collect();
            assert_eq!(shown, [first, "10.0.0.2:2", "10.0.0.3:3"]);
            // A redirection may use either name.
            for name in ["one.example:1", "10.0.0.1:1"] {
                let named = Endpoint::read(name, &at(9)).unwrap();
                assert_eq!(Some(map.hint(15, &named)), map.owner(5), "{name}");
            }
            assert_eq!(map.primaries().len(), 2);
        }
    }

    #[test]
    fn a_view_from_the_past_takes_nothing_back() {
        let mut map = Map::new();
        let before = view(&[(1, 1, "0-9"), (2, 2, "10-19"), (3, 0, "")]);
        assert!(map.merge(&before));
        assert!(map.merge(&view(&[(1, 1, ""), (2, 2, "10-19"), (3, 7, "0-9")])));
        assert_eq!(owner(&map, 5), Some(3));
        assert!(!map.merge(&before));
        assert_eq!(owner(&map, 5), Some(3));
    }

    #[test]
    fn a_slot_that_was_given_away_before_its_old_owner_rose_is_found() {
        let mut map = Map::new();
        map.merge(&view(&[(1, 1, "0-9"), (2, 2, "10-19")]));
        // The first node gave slot 5 to the second (epoch 3), and then got slot 15 (epoch 4).
        assert!(map.merge(&view(&[(1, 4, "0-4 6-9 15"), (2, 3, "5 10-14 16-19")])));
        assert_eq!((owner(&map, 5), owner(&map, 15)), (Some(2), Some(1)));
    }

    #[test]
    fn a_hint_is_good_until_a_view_knows_better() {
        let mut map = Map::new();
        map.merge(&view(&[(1, 1, "0-9"), (2, 2, "10-19")]));
        map.hint(5, &at(2));
        assert_eq!(owner(&map, 5), Some(2));
        assert!(map.merge(&view(&[(1, 1, "0-9"), (2, 2, "10-19")])));
        assert_eq!(owner(&map, 5), Some(1));
    }

    #[test]
    fn whom_the_cluster_has_forgotten_outbids_nobody() {
        let mut map = Map::new();
        map.merge(&view(&[(1, 9, "0-9"), (2, 2, "10-19")]));
        assert!(map.merge(&view(&[(2, 2, "0-19")])));
        assert_eq!(owner(&map, 5), Some(2));
    }

    proptest! {
        #[test]
        fn views_in_any_order_end_with_the_largest_epoch(
            claims in proptest::collection::vec((1u16..5, 0u64..8), 1..20),
        ) {
            let mut map = Map::new();
            let everybody = |(port, epoch): (u16, u64)| {
                let mut nodes: Vec<_> = (1..5).map(|other| (other, 0, "")).collect();
                nodes[usize::from(port) - 1] = (port, epoch, "7");
                view(&nodes)
            };
            for &claim in &claims {
                map.merge(&everybody(claim));
            }
            let largest = claims.iter().map(|(_, epoch)| *epoch).max();
            let winners: Vec<_> = claims.iter().filter(|(_, epoch)| Some(*epoch) == largest).collect();
            prop_assert!(winners.iter().any(|(port, _)| Some(*port) == owner(&map, 7)));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", words in "([a-z0-9:@,\\[\\]-]+ ){8}[0-9-]+") {
            for by in [By::Name, By::Address] {
                let _ = View::read(&text, &at(1), by);
                let _ = View::read(&words, &at(1), by);
            }
        }
    }
}
