//! Runs the contents of the command line: a task, or places, files and commands, or a session.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use crate::args::{Args, ProgramTask, VERSION};
use crate::interrupt::Interruptible;
use crate::repl;
use crate::shell::{OnError, Shell, ShellFlow};

/// The files in the home folder that run before a session. Only the first one that exists runs.
const RC_FILES: [&str; 2] = [".tiledbsqlrc", ".datafusionrc"];

impl Shell {
    /// Opens the places, then runs files, then commands; or a session if neither was given.
    pub async fn run(&mut self, args: Args) -> ExitCode {
        match &args.task {
            Some(ProgramTask::Check(check)) => return self.check(check, args.quiet).await,
            Some(ProgramTask::Consolidate(consolidate)) => {
                return self.consolidate(consolidate).await;
            }
            Some(ProgramTask::Vacuum(vacuum)) => return self.vacuum(vacuum).await,
            #[cfg(feature = "cluster")]
            Some(ProgramTask::Worker(worker)) => return self.work(worker, &args.trust).await,
            None => {}
        }
        self.is_interactive = args.is_session() && io::stdin().is_terminal();
        self.printing.pager.is_attended = self.is_interactive;
        if self.is_interactive && !args.quiet {
            println!("tiledb-sql {}", *VERSION);
        }
        for place in &args.places {
            match self.open_place(place).await {
                ShellFlow::GoOn | ShellFlow::Interrupted => {}
                ShellFlow::Quit => return ExitCode::SUCCESS,
                ShellFlow::Stop(code) => return code,
            }
        }
        if args.is_session() {
            return self.session(args).await;
        }
        for file in &args.file {
            match self.file(file, OnError::Stop).await {
                ShellFlow::GoOn | ShellFlow::Interrupted => {}
                ShellFlow::Quit => return ExitCode::SUCCESS,
                ShellFlow::Stop(code) => return code,
            }
        }
        for command in &args.command {
            match self.lines(command.as_bytes(), None, OnError::Stop).await {
                ShellFlow::GoOn | ShellFlow::Interrupted => {}
                ShellFlow::Quit => return ExitCode::SUCCESS,
                ShellFlow::Stop(code) => return code,
            }
        }
        ExitCode::SUCCESS
    }

    async fn session(&mut self, args: Args) -> ExitCode {
        // At the prompt, Ctrl-C must not end the shell.
        let _prompting = self.is_interactive.then(Interruptible::begin);
        let rc = args.rc.unwrap_or_else(|| {
            let home = std::env::home_dir();
            let files = RC_FILES
                .into_iter()
                .filter_map(|name| Some(home.as_ref()?.join(name)));
            let first = files.into_iter().find(|file| file.exists());
            first
                .map(|file| file.to_string_lossy().into_owned())
                .into_iter()
                .collect()
        });
        for file in &rc {
            match self.file(file, OnError::GoOn).await {
                ShellFlow::GoOn | ShellFlow::Interrupted => {}
                ShellFlow::Quit => return self.exit_code(),
                ShellFlow::Stop(code) => return code,
            }
        }
        if self.is_interactive {
            return repl::run(self).await;
        }
        match self
            .lines(io::stdin().lock(), Some("stdin"), OnError::GoOn)
            .await
        {
            ShellFlow::Stop(code) => code,
            ShellFlow::GoOn | ShellFlow::Quit | ShellFlow::Interrupted => self.exit_code(),
        }
    }

    fn exit_code(&self) -> ExitCode {
        if self.failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}
