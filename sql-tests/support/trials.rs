//! One line beside a function makes it a test.
//!
//! `trial!(function)` registers a function by its name. It takes no arguments and may be asynchronous, or it takes a [`Place`] and
//! runs the shell there. `trials!(expression)` registers all tests of an array or a vector, for cases that only differ in their
//! data: [`trial`] makes each of them. The name of a test is the path of its module, and its own name.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Instant;

use libtest_mimic::{Failed, Trial};

use crate::block_on;
use crate::support::allocations;
use crate::support::shell_place::{PROGRAM, Place};

/// Makes a function of this module a test.
macro_rules! trial {
    ($function:ident) => {
        trials!([$crate::support::trials::SqlTrial::of(
            stringify!($function),
            $function
        )]);
    };
}

/// Registers the tests that an expression gives.
macro_rules! trials {
    ($trials:expr) => {
        inventory::submit! {
            $crate::support::trials::TrialSource::new(module_path!(), || Vec::from($trials))
        }
    };
}

/// A test, named inside its module.
pub struct SqlTrial {
    name: String,
    test: Box<dyn FnOnce() -> Result<(), Failed> + Send>,
    is_ignored: bool,
}

/// A test by name.
pub fn trial(
    name: impl Into<String>,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> SqlTrial {
    SqlTrial {
        name: name.into(),
        test: Box::new(test),
        is_ignored: false,
    }
}

/// Tests whose names begin with a word.
pub fn in_group(group: &str, mut trials: Vec<SqlTrial>) -> Vec<SqlTrial> {
    for trial in &mut trials {
        trial.name = format!("{group}::{}", trial.name);
    }
    trials
}

impl SqlTrial {
    /// A function as a test.
    pub fn of<Kind>(name: &str, body: impl TrialBody<Kind>) -> Self {
        body.named(name)
    }

    /// The name inside the module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Leaves the test out unless ignored tests are asked for.
    pub fn with_ignored_flag(self, is_ignored: bool) -> Self {
        Self { is_ignored, ..self }
    }

    /// The test as the program runs it. `TRIAL_TIMES=<file>` adds a line to the file for each test that ran: the seconds, and
    /// its name.
    fn runnable(self, module: &str) -> Trial {
        let name = format!("{module}::{}", self.name);
        let (test, name_inside) = (self.test, name.clone());
        let runnable = if allocations::are_limited() {
            Trial::test(name, move || {
                allocations::begin(&name_inside);
                let outcome = test();
                allocations::end();
                allocations::under_limit(&name_inside, outcome)
            })
        } else if let Some(times) = std::env::var_os("TRIAL_TIMES") {
            Trial::test(name, move || {
                let begin = Instant::now();
                let outcome = test();
                let mut times = OpenOptions::new().create(true).append(true).open(times)?;
                let seconds = begin.elapsed().as_secs_f64();
                writeln!(times, "{seconds:.3} {name_inside}")?;
                outcome
            })
        } else {
            Trial::test(name, test)
        };
        runnable.with_ignored_flag(self.is_ignored)
    }
}

/// A function that can be a test. `Kind` is the marker of its signature.
pub trait TrialBody<Kind> {
    fn named(self, name: &str) -> SqlTrial;
}

/// The marker of functions without arguments.
pub struct PlainBody;
/// The marker of asynchronous functions.
pub struct AsyncBody;
/// The marker of functions that run the shell in an empty folder of their own.
pub struct ShellBody;

impl<F> TrialBody<PlainBody> for F
where
    F: FnOnce() -> Result<(), Failed> + Send + 'static,
{
    fn named(self, name: &str) -> SqlTrial {
        trial(name, self)
    }
}

impl<F, T> TrialBody<AsyncBody> for F
where
    F: FnOnce() -> T + Send + 'static,
    T: Future<Output = Result<(), Failed>>,
{
    fn named(self, name: &str) -> SqlTrial {
        trial(name, || block_on(self()))
    }
}

impl<F> TrialBody<ShellBody> for F
where
    F: FnOnce(&Place) -> Result<(), Failed> + Send + 'static,
{
    fn named(self, name: &str) -> SqlTrial {
        shell_trial(name, self)
    }
}

/// A test in an empty folder of its own. It is ignored if the program was not built.
pub fn shell_trial(
    name: impl Into<String>,
    test: impl FnOnce(&Place) -> Result<(), Failed> + Send + 'static,
) -> SqlTrial {
    let run = move || {
        let folder = tempfile::tempdir()?;
        test(&Place(folder.path().to_owned()))
    };
    trial(name, run).with_ignored_flag(PROGRAM.is_none())
}

/// The tests that one line registers.
pub struct TrialSource {
    module: &'static str,
    trials: fn() -> Vec<SqlTrial>,
}

impl TrialSource {
    /// Tests of the module with this path, which begins with the name of the crate.
    pub const fn new(module: &'static str, trials: fn() -> Vec<SqlTrial>) -> Self {
        Self { module, trials }
    }
}

inventory::collect!(TrialSource);

/// All tests, by name.
pub fn all() -> Vec<Trial> {
    let sources = inventory::iter::<TrialSource>();
    let mut trials: Vec<Trial> = sources
        .flat_map(|source| {
            let (_, module) = source.module.split_once("::").unwrap_or_default();
            let trials = (source.trials)().into_iter();
            trials.map(|trial| trial.runnable(module))
        })
        .collect();
    trials.sort_by(|a, b| a.name().cmp(b.name()));
    for pair in trials.windows(2) {
        assert_ne!(pair[0].name(), pair[1].name(), "two tests have one name");
    }
    trials
}
