//! Whom a program has put into groups of their own, in the same session: a run inside this one does, and a shell with job
//! control. By the numbers that Linux tells; elsewhere they are not known.

use std::fs;

use nix::unistd::{getpgid, getpgrp, getsid};
use rustix::process::{Pid, getpid};

/// So many processes are looked at: whoever has more must not keep the rest alive by it.
const MOST: usize = 4096;

/// The groups of this session, besides that of this process and `known`, that have a descendant of this process in them.
///
/// A group or a session that was made outside of this PID namespace, as `docker exec` and `kubectl exec` do, has the number
/// 0 in here. Such a session can be compared as any other; such a group is nobody whom this process has started.
pub(crate) fn other_groups(known: Pid) -> Vec<Pid> {
    let (session, ours) = (getsid(None), own_group());
    let mut groups = Vec::new();
    let mut family = children(getpid());
    let mut seen = 0;
    while let Some(member) = family.get(seen).copied().filter(|_| seen < MOST) {
        seen += 1;
        family.extend(children(member));
        let member = Some(nix::unistd::Pid::from_raw(member.as_raw_pid()));
        let group = getpgid(member).ok().and_then(number);
        let Some(group) = group.filter(|group| *group != known && Some(*group) != ours) else {
            continue;
        };
        if !groups.contains(&group) && getsid(member) == session {
            groups.push(group);
        }
    }
    groups
}

/// The group of this process; `None` if it was made outside of this PID namespace, where alone it has a number.
pub(crate) fn own_group() -> Option<Pid> {
    number(getpgrp())
}

/// Not by `rustix`, which takes 0 for impossible.
fn number(id: nix::unistd::Pid) -> Option<Pid> {
    Pid::from_raw(id.as_raw())
}

/// Each thread has children of its own.
fn children(of: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{of}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let id = |word: &str| word.parse().ok().and_then(Pid::from_raw);
    lists
        .flat_map(|list| list.split_whitespace().filter_map(id).collect::<Vec<_>>())
        .collect()
}
