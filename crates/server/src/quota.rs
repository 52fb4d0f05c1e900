//! Limits on the runs that one user may start.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helix_agents_core::runtime::StartedRun;
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{Lookup, SessionStore};
use helix_agents_core::{RunId, UserId};
use tokio::time::Instant;

use crate::ApiError;

/// The cost of one start. A user earns `per_minute` units per millisecond.
const START: u64 = 60_000;
/// The minimum interval between two store queries for ended runs of a user, if none had ended.
const LOOK: Duration = Duration::from_secs(1);
/// The number of users from which on inactive users are forgotten. Runs of a forgotten user that
/// are still running no longer count.
const MANY: usize = 1024;
const LATELY: Duration = Duration::from_secs(600);

/// The limits, and the runs that each user has started.
#[derive(Debug, Clone)]
pub(crate) struct Quota {
    most_runs: usize,
    per_minute: u32,
    users: Arc<Mutex<HashMap<UserId, Account>>>,
}

/// The runs that one user has started.
#[derive(Debug)]
struct Account {
    earned: u64,
    /// When the user last tried to start a run.
    at: Instant,
    /// Runs that this process started and that have not ended, as far as it knows.
    runs: BTreeMap<RunId, StartedRun>,
    /// The number of runs that are being started.
    begun: usize,
    /// When the store was last queried for ended runs and had none.
    looked: Option<Instant>,
}

impl Account {
    fn new(full: u64, now: Instant) -> Self {
        Self {
            earned: full,
            at: now,
            runs: BTreeMap::new(),
            begun: 0,
            looked: None,
        }
    }

    fn earn(&mut self, per_minute: u32, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let more = passed.saturating_mul(per_minute.into());
        self.earned = self.earned.saturating_add(more).min(full(per_minute));
        self.at = now;
    }
}

fn full(per_minute: u32) -> u64 {
    START * u64::from(per_minute)
}

impl Quota {
    pub(crate) fn new(most_runs: usize, per_minute: u32) -> Self {
        Self {
            most_runs: most_runs.max(1),
            per_minute: per_minute.max(1),
            users: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, Account>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits the start of a run, if the user's limits allow it. Callers without a user are not
    /// counted.
    pub(crate) async fn admit(
        &self,
        store: &dyn SessionStore,
        user: Option<&UserId>,
    ) -> Result<Admitted, ApiError> {
        let Some(user) = user else {
            return Ok(Admitted(None));
        };
        if let Some(known) = self.runs_to_check(user) {
            let ended = ended(store, known).await?;
            if let Some(account) = self.lock().get_mut(user) {
                account.looked = ended.is_empty().then(Instant::now);
                ended.iter().for_each(|run| drop(account.runs.remove(run)));
            }
        }
        self.take(user)?;
        Ok(Admitted(Some((self.clone(), user.clone()))))
    }

    /// Returns the runs of a user who is at the limit, if it is time to query which have ended.
    fn runs_to_check(&self, user: &UserId) -> Option<Vec<StartedRun>> {
        let mut users = self.lock();
        let account = users.get_mut(user)?;
        let is_full = account.runs.len() + account.begun >= self.most_runs;
        let is_time = account.looked.is_none_or(|at| at.elapsed() >= LOOK);
        (is_full && is_time).then(|| account.runs.values().cloned().collect())
    }

    fn take(&self, user: &UserId) -> Result<(), ApiError> {
        let now = Instant::now();
        let per_minute = self.per_minute;
        let mut users = self.lock();
        if users.len() >= MANY && !users.contains_key(user) {
            users.retain(|_, account| account.begun > 0 || account.at + LATELY > now);
        }
        let account = users.entry(user.clone());
        let account = account.or_insert_with(|| Account::new(full(per_minute), now));
        account.earn(per_minute, now);
        let most = self.most_runs;
        if account.runs.len() + account.begun >= most {
            let detail = format!("you have {most} running runs; wait until one of them has ended");
            return Err(ApiError::rate_limited(detail, 1));
        }
        let Some(left) = account.earned.checked_sub(START) else {
            let millis = (START - account.earned).div_ceil(per_minute.into());
            let seconds = u32::try_from(millis.div_ceil(1000)).unwrap_or(u32::MAX);
            let detail = format!("you may start {per_minute} runs a minute; wait {seconds} s");
            return Err(ApiError::rate_limited(detail, seconds));
        };
        account.earned = left;
        account.begun += 1;
        Ok(())
    }
}

/// Returns the runs that are no longer running.
async fn ended(store: &dyn SessionStore, known: Vec<StartedRun>) -> Result<Vec<RunId>, ApiError> {
    let mut ended = Vec::new();
    for run in known {
        let one = Lookup::One(run.run_id.clone());
        let found = store.runs(run.key(), one).await?.items.pop();
        if found.is_none_or(|found| found.status != RunStatus::Running) {
            ended.push(run.run_id);
        }
    }
    Ok(ended)
}

/// An admitted start, which counts as in progress until it is dropped.
#[derive(Debug)]
pub(crate) struct Admitted(Option<(Quota, UserId)>);

impl Admitted {
    /// Records the run that was started.
    pub(crate) fn started(self, run: &StartedRun) {
        if let Some((quota, user)) = &self.0
            && let Some(account) = quota.lock().get_mut(user)
        {
            account.runs.insert(run.run_id.clone(), run.clone());
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some((quota, user)) = &self.0
            && let Some(account) = quota.lock().get_mut(user)
        {
            account.begun -= 1;
        }
    }
}
