//! How much one user may start.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helix_agents_core::runtime::StartedRun;
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{Lookup, SessionStore};
use helix_agents_core::{RunId, UserId};
use tokio::time::Instant;

use crate::ApiError;

/// What one start costs: a user earns as many of these in a millisecond as it may start runs in a minute.
const START: u64 = 60_000;
/// How soon the store is asked again which runs of a user have ended, when none had.
const LOOK: Duration = Duration::from_secs(1);
/// From how many users on those are forgotten who have not started anything lately. Their runs, if any
/// go on, count no more.
const MANY: usize = 1024;
const LATELY: Duration = Duration::from_secs(600);

/// How much each user may start.
#[derive(Debug, Clone)]
pub(crate) struct Quota {
    most_runs: usize,
    per_minute: u32,
    users: Arc<Mutex<HashMap<UserId, Account>>>,
}

/// What one user has started.
#[derive(Debug)]
struct Account {
    earned: u64,
    /// When it last wanted to start something.
    at: Instant,
    /// Runs that this process started and that have not ended, as far as is known.
    runs: BTreeMap<RunId, StartedRun>,
    /// How many are being started.
    begun: usize,
    /// When the store was last asked in vain which of them have ended.
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

    /// Lets a user start something, if it may. Whoever has no name is not counted: nobody knows who
    /// it is.
    pub(crate) async fn admit(
        &self,
        store: &dyn SessionStore,
        user: Option<&UserId>,
    ) -> Result<Admitted, ApiError> {
        let Some(user) = user else {
            return Ok(Admitted(None));
        };
        if let Some(known) = self.crowd_of(user) {
            let ended = ended(store, known).await?;
            if let Some(account) = self.lock().get_mut(user) {
                account.looked = ended.is_empty().then(Instant::now);
                ended.iter().for_each(|run| drop(account.runs.remove(run)));
            }
        }
        self.take(user)?;
        Ok(Admitted(Some((self.clone(), user.clone()))))
    }

    /// The runs of a user who seems to have as many as it may, if it is time to look which go on.
    fn crowd_of(&self, user: &UserId) -> Option<Vec<StartedRun>> {
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
            let detail = format!("{most} runs of yours go on; wait until one of them has ended");
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

/// Which of these runs need nothing of this server any more.
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

/// A start that is allowed. Dropped, it is as if nothing was begun.
#[derive(Debug)]
pub(crate) struct Admitted(Option<(Quota, UserId)>);

impl Admitted {
    /// It has become this run.
    pub(crate) fn became(self, run: &StartedRun) {
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
