//! Whom a program has put into groups of their own, in the same session: a run inside this one does, and a shell with job
//! control. By the numbers that Linux tells; elsewhere they are not known.

use std::fs;

use rustix::process::{Pid, getpgid, getpgrp, getpid, getsid};

/// So many processes are looked at: whoever has more must not keep the rest alive by it.
const MOST: usize = 4096;

/// The groups of this session, besides that of this process and `known`, that have a descendant of this process in them.
pub(crate) fn other_groups(known: Pid) -> Vec<Pid> {
    let (session, ours) = (getsid(None), getpgrp());
    let mut groups = Vec::new();
    let mut family = children(getpid());
    let mut seen = 0;
    while let Some(member) = family.get(seen).copied().filter(|_| seen < MOST) {
        seen += 1;
        family.extend(children(member));
        let Ok(group) = getpgid(Some(member)) else {
            continue;
        };
        let is_new = group != known && group != ours && !groups.contains(&group);
        if is_new && getsid(Some(member)) == session {
            groups.push(group);
        }
    }
    groups
}

/// Each thread has children of its own.
fn children(of: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{of}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let number = |word: &str| word.parse().ok().and_then(Pid::from_raw);
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(number)
                .collect::<Vec<_>>()
        })
        .collect()
}
