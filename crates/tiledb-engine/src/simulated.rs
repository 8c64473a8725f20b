//! A simulated world for tests: processes that share a store in memory, on a clock that only moves when all of them wait.
//!
//! Every request and every pause waits at one gate. When nothing can run any more, the gate lets the earliest one through and
//! sets the clock to its time. How long each takes is drawn from the seed, and nothing else runs beside, so one seed is one
//! course of events: what it shows wrong can be seen again. Work that other threads would do is done in its place.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    reason = "only tests use it"
)]

mod store;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use arrow::temporal_conversions::timestamp_us_to_datetime;
use futures::future::{BoxFuture, Either, select};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, Result};
use tokio::sync::{Notify, oneshot};

pub use self::store::Order;
use self::store::{Seat, broken};

/// 2026-01-01, in microseconds since the epoch.
const BEGIN_US: u64 = 1_767_225_600_000_000;

/// The stack of a world's thread. Of its address space, only what is used takes memory.
const STACK_BYTES: usize = 64 << 20;

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// The world of this thread, if it is simulated.
pub fn world() -> Option<World> {
    WORLD.with_borrow(Clone::clone)
}

/// Inspects the store after each change, given the process that made it.
pub type Audit = Arc<dyn Fn(usize) -> BoxFuture<'static, ()> + Send + Sync>;

/// What a request meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Served,
    /// It fails, and nothing is done.
    Fails,
    /// It is done, and its caller hears of an error.
    LosesTheAnswer,
}

/// Processes that share a store and a clock.
#[derive(Clone)]
pub struct World(Arc<Shared>);

struct Shared {
    /// All processes wait.
    idle: Notify,
    store: InMemory,
    state: Mutex<State>,
}

struct State {
    now_us: u64,
    random: u64,
    /// Who waits, by the time at which it goes on.
    gate: BTreeMap<(u64, usize), oneshot::Sender<()>>,
    waited: usize,
    modified: HashMap<Path, u64>,
    /// The processes that are killed, each after how many of its requests, and whom to notify.
    doomed: HashMap<usize, (usize, Option<oneshot::Sender<()>>)>,
    /// The processes one of whose answers was lost.
    deceived: HashMap<usize, usize>,
    /// How many changes of a thousand lose their answers, and how many requests of a thousand fail.
    faults: (u64, u64),
    /// How many entries of a folder are listed at a time, and in which order.
    pages: (usize, Order),
    audit: Option<Audit>,
    /// All requests so far, in their order.
    course: DefaultHasher,
    requests: usize,
    /// Whether each request is printed.
    logs: bool,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    /// Runs `work` in a fresh world, in a thread of its own: without optimization, the futures of a world take more than the
    /// stack of a test's thread.
    pub fn run<T, F>(seed: u64, work: impl FnOnce(World) -> F + Send) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let ended = thread::scope(|scope| {
            let running = thread.spawn_scoped(scope, || Self::run_here(seed, work));
            running.unwrap().join()
        });
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn run_here<T, F>(seed: u64, work: impl FnOnce(World) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let world = World(Arc::new(Shared {
            idle: Notify::new(),
            store: InMemory::new(),
            state: Mutex::new(State {
                now_us: BEGIN_US,
                random: seed,
                gate: BTreeMap::new(),
                waited: 0,
                modified: HashMap::new(),
                doomed: HashMap::new(),
                deceived: HashMap::new(),
                faults: (0, 0),
                pages: (1000, Order::Sorted),
                audit: None,
                course: DefaultHasher::new(),
                requests: 0,
                logs: std::env::var_os("SIMULATED_LOG").is_some(),
            }),
        }));
        let parked = world.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .on_thread_park(move || parked.0.idle.notify_one())
            .build()
            .unwrap();
        WORLD.set(Some(world.clone()));
        // The work is a task of its own: when the thread parks, no task can run, but what it blocks on may.
        let work = runtime.spawn(work(world.clone()));
        let time = std::pin::pin!(world.go_on());
        let ended = match runtime.block_on(select(work, time)) {
            Either::Left((ended, _)) => ended,
            Either::Right((never, _)) => match never {},
        };
        WORLD.set(None);
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    /// Lets the next one through whenever all wait.
    async fn go_on(&self) -> std::convert::Infallible {
        let mut stuck = 0;
        loop {
            self.0.idle.notified().await;
            let mut state = self.state();
            let Some(((time, _), next)) = state.gate.pop_first() else {
                stuck += 1;
                assert!(stuck < 1000, "everybody waits, and nobody for the store");
                continue;
            };
            stuck = 0;
            state.now_us = state.now_us.max(time);
            drop(state);
            // Who no longer waits was cancelled.
            let _ = next.send(());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// Milliseconds since the epoch.
    pub fn now_ms(&self) -> u64 {
        self.state().now_us / 1000
    }

    /// The time since the epoch.
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.state().now_us)
    }

    /// The next number that the seed gives.
    pub fn random(&self) -> u64 {
        self.state().next_random()
    }

    /// Waits so long.
    pub async fn wait(&self, time: Duration) {
        let receiver = self.state().enter(time.as_micros() as u64);
        let _ = receiver.await;
    }

    /// All requests so far, as one number; and how many.
    pub fn course(&self) -> (u64, usize) {
        let state = self.state();
        (state.course.finish(), state.requests)
    }

    /// How many changes of the store of a thousand lose their answers, and how many requests of a thousand fail.
    pub fn set_faults(&self, lost_answers: u64, failures: u64) {
        self.state().faults = (lost_answers, failures);
    }

    /// The number of entries that a listing returns at a time, and their order.
    pub fn set_pages(&self, entries: usize, order: Order) {
        self.state().pages = (entries, order);
    }

    fn pages(&self) -> (usize, Order) {
        self.state().pages
    }

    /// Has `audit` look at the store after each change.
    pub fn set_audit(&self, audit: Audit) {
        self.state().audit = Some(audit);
    }

    /// Kills a process at its n-th request from now; the answer comes when it is dead.
    pub fn kill(&self, process: usize, requests: usize) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.state()
            .doomed
            .insert(process, (requests, Some(sender)));
        receiver
    }

    /// A number below `n`.
    pub fn below(&self, n: usize) -> usize {
        (self.random() % n.max(1) as u64) as usize
    }

    /// How many answers a process has lost.
    pub fn deceived(&self, process: usize) -> usize {
        self.state().deceived.get(&process).copied().unwrap_or(0)
    }

    /// The store as a process sees it; `None` looks without waiting, and changes nothing.
    pub fn store(&self, process: Option<usize>) -> Arc<dyn ObjectStore> {
        Arc::new(Seat {
            world: self.clone(),
            process,
        })
    }

    /// Waits until a request is served, or forever if the process is killed.
    async fn request(&self, process: Option<usize>, what: &str, path: &str) -> Result<Fate> {
        let Some(process) = process else {
            return Ok(Fate::Served);
        };
        let served = {
            let mut state = self.state();
            let random = state.next_random();
            // Most requests take milliseconds; some are stalled, and a few processes sleep.
            let longest = match random % 800 {
                0 => 8_000_000,
                1..=40 => 500_000,
                _ => 20_000,
            };
            let time = 1000 + (random >> 16) % longest;
            state.enter(time)
        };
        let _ = served.await;
        let (fate, dead) = {
            let mut state = self.state();
            state.requests += 1;
            let now = state.now_us;
            (process, what, path, now).hash(&mut state.course);
            if state.logs {
                eprintln!("{now} us: process {process} asks to {what} {path}");
            }
            (state.fate(process, what), state.is_dead(process))
        };
        match fate {
            _ if dead => futures::future::pending().await,
            Fate::Fails => Err(broken()),
            fate => Ok(fate),
        }
    }

    /// Tells the auditor of a change, and its caller of the end of it.
    async fn changed<T>(
        &self,
        process: Option<usize>,
        fate: Fate,
        path: Option<&Path>,
        result: Result<T>,
    ) -> Result<T> {
        let Some(process) = process else {
            return result;
        };
        let audit = {
            let mut state = self.state();
            let now = state.now_us;
            if let Some(path) = path
                && result.is_ok()
            {
                state.modified.insert(path.clone(), now);
            }
            // The files of a fragment show nothing by themselves, so only some of them are looked at.
            let shows = path.is_none_or(|path| !path.as_ref().contains("/__fragments/"));
            let looks = shows || state.next_random().is_multiple_of(8);
            state.audit.clone().filter(|_| looks)
        };
        if let Some(audit) = audit {
            audit(process).await;
        }
        if self.state().is_dying(process) {
            return futures::future::pending().await;
        }
        match fate {
            Fate::LosesTheAnswer => Err(broken()),
            _ => result,
        }
    }

    fn dated(&self, mut meta: ObjectMeta) -> ObjectMeta {
        let time = self
            .state()
            .modified
            .get(&meta.location)
            .copied()
            .unwrap_or(BEGIN_US) as i64;
        meta.last_modified = timestamp_us_to_datetime(time).unwrap().and_utc();
        meta
    }
}

impl State {
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Waits at the gate for `time` microseconds.
    fn enter(&mut self, time: u64) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.waited += 1;
        self.gate.insert((self.now_us + time, self.waited), sender);
        receiver
    }

    fn fate(&mut self, process: usize, what: &str) -> Fate {
        let (lost, failed) = self.faults;
        let random = self.next_random() % 1000;
        if what == "put" && random < lost {
            *self.deceived.entry(process).or_default() += 1;
            Fate::LosesTheAnswer
        } else if random >= 1000 - failed {
            Fate::Fails
        } else {
            Fate::Served
        }
    }

    /// Whether a process is killed before this request, or was before.
    fn is_dead(&mut self, process: usize) -> bool {
        let before = self.next_random().is_multiple_of(2);
        let Some((left, killed)) = self.doomed.get_mut(&process) else {
            return false;
        };
        if *left > 0 {
            *left -= 1;
            return false;
        }
        let is_last = killed.is_some();
        if is_last && !before {
            return false;
        }
        if let Some(killed) = killed.take() {
            let _ = killed.send(());
        }
        true
    }

    /// Whether a process is killed when this request is done.
    fn is_dying(&mut self, process: usize) -> bool {
        match self.doomed.get_mut(&process) {
            Some((0, killed)) => {
                if let Some(killed) = killed.take() {
                    let _ = killed.send(());
                }
                true
            }
            _ => false,
        }
    }
}
