//! Kills a run at every point where a process can die, and looks at what is left.
//!
//! A [`Scenario`] is an agent, what a user says, and how questions are answered. [`CrashTest`] plays
//! it once undisturbed, counts the points at which the process could have died (before and after
//! every effect, before every durable write and between it and its acknowledgement, inside of tools
//! that say so), and then plays it again and again, killed at one point after the other. Each time a
//! fresh process takes over from the store alone, and the outcome must be that of the undisturbed
//! run: nothing lost, nothing doubled, nothing run twice, nothing bought twice, nothing unpaired.

mod compare;
mod disturbance;
mod durable_work;
mod kill_switch;
mod killable_host;
mod killable_store;
mod observer;
mod play;
mod process;
mod report;
mod scenario;
mod schedules;
mod test;

pub use disturbance::{Disturbance, Meddling};
pub use kill_switch::KillSwitch;
pub use process::World;
pub use report::CrashReport;
pub use scenario::Scenario;
pub use schedules::{Hosting, InterleavingReport, Interleavings, ScheduleReport, Schedules};
pub use test::CrashTest;
