//! Memory and latencies of a server while others use it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::serving::Served;

pub(crate) const MB: usize = 1_000_000;

/// Where a server listens.
pub(crate) fn address(served: &Served) -> SocketAddr {
    let url = served.url().strip_prefix("http://").unwrap();
    url.parse().unwrap()
}

/// The memory of a process that is in use, in bytes.
pub(crate) fn resident(served: &Served) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().split_whitespace().next().unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

/// How busy the machine is: programs that want to run, on average over a minute.
pub(crate) fn load_average() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap();
    told.split(' ').next().unwrap().to_owned()
}
