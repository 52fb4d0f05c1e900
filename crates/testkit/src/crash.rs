//! Crash tests: kill a run at every point where a process can die, and check the outcome.
//!
//! A [`Scenario`] is an agent, the messages of a user, the answers to its pending calls, and the moments
//! at which somebody stops a run.
//! [`CrashTest`] plays it once undisturbed and counts the points at which the process could have
//! died: before and after every effect, before every durable write and between it and its
//! acknowledgement, and at the kill points inside tools. Then it plays the scenario once for each
//! point and kills the process there. Each time a fresh process takes over with nothing but the
//! store, and the outcome must be that of the undisturbed run: nothing lost or duplicated, no tool
//! run twice, no model call repeated, no call unpaired.

mod compare;
mod disturbance;
mod durable_work;
mod kill_switch;
mod killable_host;
mod killable_store;
mod observer;
mod people;
mod play;
mod process;
mod report;
mod scenario;
mod schedules;
mod test;

pub use disturbance::{Disturbance, Meddling};
pub use kill_switch::KillSwitch;
pub use people::Moment;
pub use process::World;
pub use report::CrashReport;
pub use scenario::{LateAnswer, Scenario};
pub use schedules::{Hosting, InterleavingReport, Interleavings, ScheduleReport, Schedules};
pub use test::CrashTest;
