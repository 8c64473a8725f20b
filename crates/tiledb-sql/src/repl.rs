//! The interactive loop: datafusion-cli's line editor and highlighting around our [`Shell`].
//!
//! It differs from datafusion-cli's loop in two ways: errors read the same as everywhere else, and the history lies in the
//! user's home. datafusion-cli writes `.history` to the current folder, which may be an array.

use std::path::PathBuf;
use std::process::ExitCode;

use datafusion_tiledb::options::secrets::may_hold_secret;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{ColorMode, CompletionType, Config, Editor};

use crate::editing::EditHelper;
use crate::report;
use crate::resizing;
use crate::script::Splitter;
use crate::shell::{OnError, Shell, ShellFlow};
use crate::variables::sets_secret;

type LineEditor = Editor<EditHelper, DefaultHistory>;

/// Reads, runs and prints until the user leaves.
pub async fn run(shell: &mut Shell) -> ExitCode {
    let mut editor = match open_editor(shell) {
        Ok(editor) => editor,
        Err(e) => {
            return report::failure(
                &report::message(format!("cannot read from the terminal: {e}")),
                None,
            );
        }
    };
    let code = read_lines(shell, &mut editor).await;
    if let Some(file) = history_file() {
        // A session doesn't fail because the home folder is read-only.
        let _ = editor.save_history(&file);
    }
    code
}

fn open_editor(shell: &Shell) -> rustyline::Result<LineEditor> {
    // Tab completes up to the first choice; pressed again, it lists the choices.
    // rustyline would look at NO_COLOR again, which --color overrules.
    let color = if shell.printing.color {
        ColorMode::Forced
    } else {
        ColorMode::Disabled
    };
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .color_mode(color);
    let mut editor = LineEditor::with_config(config.build())?;
    let state = shell.ctx.state();
    let dialect = &state.config_options().sql_parser.dialect;
    editor.set_helper(Some(EditHelper::new(
        shell.ctx.clone(),
        *dialect,
        shell.printing.color,
    )));
    if let Some(file) = history_file() {
        // The first session has no history.
        let _ = editor.load_history(&file);
    }
    Ok(editor)
}

fn history_file() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".tiledbsql_history"))
}

async fn read_lines(shell: &mut Shell, editor: &mut LineEditor) -> ExitCode {
    loop {
        match resizing::noticed(|| editor.readline("> ")) {
            Ok(text) => {
                if !may_hold_secret(&text) && !sets_secret(&text) {
                    // A history that is full or off must not stop the session.
                    let _ = editor.add_history_entry(text.trim_end());
                }
                let flow = run_text(shell, &text).await;
                for text in shell.edited_texts.drain(..) {
                    let _ = editor.add_history_entry(text);
                }
                match flow {
                    ShellFlow::GoOn | ShellFlow::Interrupted => {}
                    ShellFlow::Quit => return ExitCode::SUCCESS,
                    ShellFlow::Stop(code) => return code,
                }
                if let Some(helper) = editor.helper_mut() {
                    // SET may have changed the dialect.
                    helper.set_dialect(shell.ctx.state().config_options().sql_parser.dialect);
                }
            }
            Err(ReadlineError::Interrupted) => {
                println!("^C");
                if let Some(helper) = editor.helper() {
                    helper.reset_hint();
                }
            }
            Err(ReadlineError::Eof) => {
                println!("\\q");
                return ExitCode::SUCCESS;
            }
            Err(e) => {
                return report::failure(
                    &report::message(format!("cannot read from the terminal: {e}")),
                    None,
                );
            }
        }
    }
}

async fn run_text(shell: &mut Shell, text: &str) -> ShellFlow {
    let mut splitter = Splitter::default();
    let mut pieces: Vec<_> = text
        .lines()
        .flat_map(|line| splitter.push_line(line))
        .collect();
    pieces.extend(splitter.finish());
    shell.pieces(pieces, None, OnError::GoOn).await
}
