//! Finds the process groups that descendants of a program have made in the same session. A nested run and a shell with job control
//! make such groups. Also finds out whether all members of a group are dead. This works on Linux, which shows all processes under `/proc`;
//! on other systems these groups are not found.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::{getpgid, getpgrp, getsid};
use rustix::process::{Pid, getpid};

/// The largest number of processes to look at. A program that has more must not delay the kill.
const MOST: usize = 4096;

/// Returns the groups of this session that contain a descendant of this process, except this process's own group and `known`.
///
/// A group or session that was made outside of this PID namespace has the number 0 here; `docker exec` and `kubectl exec` make such
/// ones. Such a session can be compared like any other. Such a group contains no process that this one has started, so it is left
/// out.
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

/// Finds out whether all members of a group are dead. That the group exists does not show that anything is alive: a zombie keeps
/// the number of its group in use, and a living parent outside of the group may never reap it.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// When to look again: each look reads all processes, and a machine may have many.
    next: Option<Instant>,
    /// Groups that were found dead; they stay dead.
    dead: Vec<Pid>,
}

/// Looking takes at most one part in this many of the time, because with `--keep` it may go on for hours.
const SHARE: u32 = 50;

/// The shortest and longest pause between two looks. Killed processes are given two seconds to end.
const SOONEST: Duration = Duration::from_millis(20);
const LATEST: Duration = Duration::from_millis(500);

impl Census {
    /// Returns whether all members of the group are known to be dead. Returns false also if this is not known, or if the last look
    /// was a moment ago.
    pub(crate) fn finds_only_dead(&mut self, group: Pid) -> bool {
        let begun = Instant::now();
        if self.dead.contains(&group) {
            return true;
        }
        if self.next.is_some_and(|next| begun < next) {
            return false;
        }
        // Look twice: a member may end right before it is read, when the look has already passed its child in the list.
        let dead = all_dead(group) && all_dead(group);
        if dead {
            self.dead.push(group);
        }
        let pause = (begun.elapsed() * SHARE).clamp(SOONEST, LATEST);
        self.next = Some(Instant::now() + pause);
        dead
    }
}

/// Whether all members of the group are dead; false if not all processes are visible.
fn all_dead(group: Pid) -> bool {
    let (Ok(processes), true) = (fs::read_dir("/proc"), Path::new("/proc/1/stat").exists()) else {
        return false;
    };
    let ids = processes
        .flatten()
        .filter_map(|it| it.file_name().into_string().ok());
    let mut found = false;
    for id in ids.filter(|id| id.bytes().all(|byte| byte.is_ascii_digit())) {
        let stat = fs::read(format!("/proc/{id}/stat"));
        match stat.map(|stat| Member::read(&String::from_utf8_lossy(&stat))) {
            Ok(Some(member)) if member.group != group.as_raw_pid() => {}
            Ok(Some(member)) if member.dead => found = true,
            // The process has been reaped meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            _ => return false,
        }
    }
    found
}

/// A process as described by `/proc/<id>/stat`. Parsed by hand, because the crate procfs builds on Linux only, and this command
/// builds elsewhere too.
#[derive(Debug, PartialEq, Eq)]
struct Member {
    group: i32,
    dead: bool,
}

impl Member {
    /// Reads the text of that file. The name of a process is in parentheses, and may contain parentheses itself. If only the first
    /// thread is dead, the process is still alive.
    fn read(stat: &str) -> Option<Self> {
        let (_, behind) = stat.rsplit_once(')')?;
        let mut words = behind.split_whitespace();
        let state = words.next()?;
        let group = words.nth(1)?.parse().ok()?;
        let threads: u64 = words.nth(14)?.parse().ok()?;
        Some(Self {
            group,
            dead: matches!(state, "Z" | "X") && threads <= 1,
        })
    }
}

/// The group of this process; `None` if it was made outside of this PID namespace, so that it has no number here.
pub(crate) fn own_group() -> Option<Pid> {
    number(getpgrp())
}

/// Converts a number that `nix` has read; `None` for 0. `rustix` cannot read it, because it regards 0 as impossible.
fn number(id: nix::unistd::Pid) -> Option<Pid> {
    Pid::from_raw(id.as_raw())
}

/// The children of all threads of a process, because each thread has children of its own.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_dead_when_its_last_thread_is() {
        let read = |state: &str, threads: u64| {
            let rest = "-1 4194304 107 0 0 0 0 0 0 0 20 0";
            Member::read(&format!(
                "42 (a) S) x) {state} 7 40 40 0 {rest} {threads} 0 12345 0\n"
            ))
        };
        for (state, threads, dead) in [
            ("S", 1, false),
            ("Z", 1, true),
            ("X", 1, true),
            ("Z", 3, false),
        ] {
            assert_eq!(read(state, threads), Some(Member { group: 40, dead }));
        }
        assert_eq!(Member::read("42 (sh"), None);
        assert_eq!(Member::read("42 (sh) Z 7 x"), None);
    }
}
