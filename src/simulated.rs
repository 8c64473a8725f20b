//! A simulated world for tests: processes that share a store in memory, on a clock that only moves when all of them wait.
//!
//! Every request and every pause waits at one gate. When nothing can run any more, the gate lets the earliest one through and
//! sets the clock to its time. How long each takes is drawn from the seed, and nothing else runs beside, so one seed is one
//! course of events: what it shows wrong can be seen again. Work that other threads would do is done in its place.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arrow::temporal_conversions::timestamp_us_to_datetime;
use futures::future::{BoxFuture, Either, select};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use tokio::sync::{Notify, oneshot};

/// 2026-01-01, in microseconds since the epoch.
const BEGIN_US: u64 = 1_767_225_600_000_000;

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// The world of this thread, if it is simulated.
pub fn world() -> Option<World> {
    WORLD.with_borrow(Clone::clone)
}

/// What looks at the store after each change, told which process made it.
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
    /// The processes that are killed after so many requests of theirs, and whom to tell.
    doomed: HashMap<usize, (usize, Option<oneshot::Sender<()>>)>,
    /// The processes one of whose answers was lost.
    deceived: HashMap<usize, usize>,
    /// Of a thousand changes, so many lose their answers, and of a thousand requests, so many fail.
    faults: (u64, u64),
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
    /// Runs `work` in a fresh world.
    pub fn run<T, F>(seed: u64, work: impl FnOnce(World) -> F) -> T
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

    /// Of a thousand changes of the store, so many lose their answers, and of a thousand requests, so many fail.
    pub fn set_faults(&self, lost_answers: u64, failures: u64) {
        self.state().faults = (lost_answers, failures);
    }

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
        let time = self.state().modified.get(&meta.location).copied();
        let time = time.unwrap_or(BEGIN_US) as i64;
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

    /// Waits at the gate for so many microseconds.
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

fn broken() -> object_store::Error {
    object_store::Error::Generic {
        store: "Simulated",
        source: "the connection broke".into(),
    }
}

/// The store as one process sees it.
#[derive(Debug)]
struct Seat {
    world: World,
    process: Option<usize>,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seat({:?})", self.process)
    }
}

#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    path: Path,
    world: World,
    process: Option<usize>,
}

#[async_trait::async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let put = self.inner.put_part(data);
        let (world, process, path) = (self.world.clone(), self.process, self.path.clone());
        let served = async move { world.request(process, "part", path.as_ref()).await };
        served.and_then(|_| put).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let path = self.path.as_ref();
        let fate = self.world.request(self.process, "put", path).await?;
        let done = self.inner.complete().await;
        let path = Some(&self.path);
        self.world.changed(self.process, fate, path, done).await
    }

    async fn abort(&mut self) -> Result<()> {
        let path = self.path.as_ref();
        self.world.request(self.process, "abort", path).await?;
        self.inner.abort().await
    }
}

#[async_trait::async_trait]
impl ObjectStore for Seat {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let (world, process) = (&self.world, self.process);
        let fate = world.request(process, "put", location.as_ref()).await?;
        let done = world.0.store.put_opts(location, payload, opts).await;
        world.changed(process, fate, Some(location), done).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (world, process) = (&self.world, self.process);
        world.request(process, "begin", location.as_ref()).await?;
        Ok(Box::new(Upload {
            inner: world.0.store.put_multipart_opts(location, opts).await?,
            path: location.clone(),
            world: world.clone(),
            process,
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (world, process) = (&self.world, self.process);
        world.request(process, "get", location.as_ref()).await?;
        let mut found = world.0.store.get_opts(location, options).await?;
        found.meta = world.dated(found.meta);
        Ok(found)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (world, process) = (self.world.clone(), self.process);
        let deleted = locations.then(move |location| {
            let world = world.clone();
            async move {
                let location = location?;
                let fate = world.request(process, "delete", location.as_ref()).await?;
                let one = futures::stream::once(async move { Ok(location) }).boxed();
                let mut done = world.0.store.delete_stream(one);
                let done = done.next().await.unwrap();
                world.changed(process, fate, None, done).await
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (world, process) = (self.world.clone(), self.process);
        let prefix = prefix.cloned();
        let listed = async move {
            let path = prefix.clone().unwrap_or_default();
            world.request(process, "list", path.as_ref()).await?;
            let listed = world.0.store.list(prefix.as_ref());
            Ok(listed.map(move |meta| Ok(world.dated(meta?))))
        };
        listed.try_flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let world = &self.world;
        let path = prefix.cloned().unwrap_or_default();
        world.request(self.process, "list", path.as_ref()).await?;
        let mut listed = world.0.store.list_with_delimiter(prefix).await?;
        let objects = listed.objects.into_iter();
        listed.objects = objects.map(|meta| world.dated(meta)).collect();
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (world, process) = (&self.world, self.process);
        let fate = world.request(process, "put", to.as_ref()).await?;
        let done = world.0.store.copy_opts(from, to, options).await;
        world.changed(process, fate, Some(to), done).await
    }
}
