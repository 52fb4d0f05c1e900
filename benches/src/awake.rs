//! Keeps the processors awake while something is measured that mostly waits.
//!
//! A processor with nothing to do falls asleep, and takes longer to wake up than a step takes. How often
//! that happens depends on how long each side computes between two waits, so it would decide the
//! comparison. A process of the lowest priority on each processor keeps them awake, and gives way to
//! whoever is measured.

use std::process::{Child, Command, Stdio};

use crate::sqlite::Outcome;

/// Processes that keep the processors awake, until they are dropped.
pub(crate) struct Awake(Vec<Child>);

impl Awake {
    pub(crate) fn start() -> Outcome<Self> {
        let mut awake = Self(Vec::new());
        for _ in 0..std::thread::available_parallelism()?.get() {
            let spinning = Command::new("nice")
                .args(["-n", "19"])
                .arg(std::env::current_exe()?)
                .arg("stay-awake")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()?;
            awake.0.push(spinning);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for spinning in &mut self.0 {
            // It has ended if it cannot be ended.
            let _ = spinning.kill();
            let _ = spinning.wait();
        }
    }
}

/// The process that stays awake: until it is ended, or whoever started it is gone.
pub(crate) fn stay_awake() -> Outcome<()> {
    let gone = std::thread::spawn(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    while !gone.is_finished() {
        std::hint::spin_loop();
    }
    Ok(())
}
