//! Who holds a lease: processes, and whether they still live.
//!
//! A holder is `helix:HOST:PID:START`. The host is the machine's present boot and the namespace in
//! which process ids count, so that an id is never compared across machines, restarts or containers;
//! the start tells a process from a later one of the same id. A holder of another form, or of another
//! host, is taken to live as long as its lease.

use std::fs;
use std::sync::OnceLock;

const PREFIX: &str = "helix";

/// The holder that this process is.
pub(crate) fn holder() -> &'static str {
    static HOLDER: OnceLock<String> = OnceLock::new();
    HOLDER.get_or_init(|| {
        let pid = std::process::id();
        let start = started(pid).unwrap_or(0);
        format!("{PREFIX}:{}:{pid}:{start}", host())
    })
}

fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let space = fs::read_link("/proc/self/ns/pid");
        let (Ok(boot), Ok(space)) = (boot, space) else {
            // Nothing can be told of processes here, not even which host this is.
            return format!("unknown-{}", std::process::id());
        };
        let space = space.to_string_lossy().into_owned();
        let digits = space.chars().filter(char::is_ascii_digit);
        format!("{}-{}", boot.trim(), digits.collect::<String>())
    })
}

/// Whether the holder is a process of this host that has ended.
pub(crate) fn is_dead(holder: &str) -> bool {
    let mut parts = holder.split(':');
    let (Some(PREFIX), Some(host_then), Some(pid), Some(start), None) = (
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
    ) else {
        return false;
    };
    let (Ok(pid), Ok(start)) = (pid.parse::<u32>(), start.parse::<u64>()) else {
        return false;
    };
    host_then == host() && start > 0 && started(pid) != Some(start)
}

/// When a process started, in ticks since the machine did; `None` when it does not live.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(is_dead(&format!("helix:{}:4194304:7", host())));
        assert!(!is_dead("helix:another-host:4194304:7"));
        assert!(!is_dead("a"), "not one of ours");
        assert!(!is_dead(&format!("helix:{}:4194304:7:8", host())));
    }
}
