//! The processes that hold leases and locks, and whether they have ended.
//!
//! A holder is `helix:HOST:PID:START`, or `helix:HOST:PID:START:INSTANCE` for one of several holders
//! in a process, all of which end with it. The host is the machine's present boot and the namespace in
//! which process ids count, so that an id is never compared across machines, restarts or containers;
//! the start tells a process from a later one of the same id. A holder of another form, or of another
//! host, is considered alive as long as its lease, and so is a process that cannot be inspected.

use std::fs;
use std::io::{self, ErrorKind};
use std::sync::OnceLock;

const PREFIX: &str = "helix";

/// The holder name of this process.
pub(crate) fn holder() -> &'static str {
    static HOLDER: OnceLock<String> = OnceLock::new();
    HOLDER.get_or_init(|| {
        let pid = std::process::id();
        let start = started(&stat(pid)).unwrap_or(0);
        format!("{PREFIX}:{}:{pid}:{start}", host())
    })
}

fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let space = fs::read_link("/proc/self/ns/pid");
        let (Ok(boot), Ok(space)) = (boot, space) else {
            // Without `/proc` nothing is known of other processes.
            return format!("unknown-{}", std::process::id());
        };
        let space = space.to_string_lossy().into_owned();
        let digits = space.chars().filter(char::is_ascii_digit);
        format!("{}-{}", boot.trim(), digits.collect::<String>())
    })
}

/// Whether the holder is known to be a process of this host that has ended.
pub(crate) fn is_dead(holder: &str) -> bool {
    named(holder).is_some_and(|(pid, start)| has_ended(&stat(pid), start))
}

/// The id and the start of the process that a holder names, if it is one of this host.
fn named(holder: &str) -> Option<(u32, u64)> {
    let mut parts = holder.splitn(5, ':');
    let (Some(PREFIX), Some(host_then), Some(pid), Some(start)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let is_one_instance = parts
        .next()
        .is_none_or(|instance| !instance.is_empty() && !instance.contains(':'));
    let start = start.parse().ok().filter(|start| *start > 0)?;
    let known = (pid.parse().ok()?, start);
    (host_then == host() && is_one_instance).then_some(known)
}

/// Reads the status line of a process.
fn stat(pid: u32) -> io::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/stat"))
}

/// Whether the process that started then has ended. Only the system's answer that there is no such
/// process counts. A read that failed otherwise, for lack of file descriptors or permission, proves
/// nothing, and a run must not be taken from a process that is alive.
fn has_ended(stat: &io::Result<String>, start: u64) -> bool {
    match stat {
        Err(error) => is_no_such_process(error),
        Ok(text) => match fields(text) {
            Some(("Z" | "X", _)) => true,
            Some((_, now)) => now != start,
            None => false,
        },
    }
}

/// Whether the folder of the process is missing, or the process ended while its file was read.
fn is_no_such_process(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

/// When a process started, in ticks since the machine did; `None` when that is not known.
fn started(stat: &io::Result<String>) -> Option<u64> {
    let (_, start) = fields(stat.as_ref().ok()?)?;
    Some(start)
}

/// The state letter and the start of a process.
fn fields(stat: &str) -> Option<(&str, u64)> {
    // The name, in parentheses, may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: &str = "4194304:7";

    fn of_state(state: &str, start: u64) -> io::Result<String> {
        let zeros = "0 ".repeat(18);
        Ok(format!("5 (a ) b) {state} {zeros}{start} 0 0"))
    }

    fn failing(code: i32) -> io::Result<String> {
        Err(io::Error::from_raw_os_error(code))
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_dead_only_when_that_is_known() {
        let own = holder();
        assert!(!is_dead(own));
        let (rest, start) = own.rsplit_once(':').unwrap();
        let start: u64 = start.parse().unwrap();
        assert!(start > 0);
        assert!(
            is_dead(&format!("{rest}:{}", start + 1)),
            "the id was reused"
        );
        assert!(is_dead(&format!("helix:{}:{NOBODY}", host())));
        assert!(!is_dead("helix:another-host:4194304:7"));
        assert!(!is_dead("a"), "not one of ours");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_instance_ends_with_its_process() {
        assert!(!is_dead(&format!("{}:1", holder())));
        assert!(is_dead(&format!("helix:{}:{NOBODY}:1", host())));
        assert!(!is_dead(&format!("helix:{}:{NOBODY}:", host())));
        assert!(!is_dead(&format!("helix:{}:{NOBODY}:1:2", host())));
        assert!(!is_dead(&format!("helix:another-host:{NOBODY}:1")));
    }

    #[test]
    fn a_status_that_cannot_be_read_does_not_prove_that_a_process_has_ended() {
        // ENOENT and ESRCH mean "no such process".
        assert!(has_ended(&failing(2), 7));
        assert!(has_ended(&failing(3), 7));
        // EPERM, EIO, EACCES, ENFILE, EMFILE.
        for code in [1, 5, 13, 23, 24] {
            assert!(!has_ended(&failing(code), 7), "{code}");
        }
        assert!(!has_ended(&Ok("not a stat".to_owned()), 7));
    }

    #[test]
    fn a_zombie_and_a_later_process_of_the_same_id_are_not_the_holder() {
        assert!(!has_ended(&of_state("S", 7), 7));
        assert!(has_ended(&of_state("Z", 7), 7));
        assert!(has_ended(&of_state("X", 7), 7));
        assert!(has_ended(&of_state("S", 8), 7));
        assert_eq!(started(&of_state("S", 8)), Some(8));
        assert_eq!(started(&failing(24)), None);
    }
}
