//! `\e`: the last statement, or a file, in the user's editor. The shell then runs the text.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use datafusion::error::Result;
use datafusion_tiledb::options::secrets::may_hold_secret;

use crate::programs::system_shell;
use crate::report;
use crate::shell::{OnError, Shell, ShellFlow};
use crate::variables::sets_secret;

/// Environment variables that name an editor, in order of precedence.
const VARIABLES: [&str; 3] = ["TILEDB_SQL_EDITOR", "VISUAL", "EDITOR"];
const DEFAULT: &str = if cfg!(windows) { "notepad" } else { "vi" };

impl Shell {
    /// Opens the editor, and runs the text if the user changed it.
    pub(super) async fn edit(
        &mut self,
        file: Option<&str>,
        place: Option<&str>,
        on_error: OnError,
    ) -> ShellFlow {
        let edited = match self.edited(file) {
            Ok(edited) => edited,
            Err(e) => return self.fail(&e, place, on_error),
        };
        let Some(text) = edited else {
            return ShellFlow::GoOn;
        };
        println!("{}", text.trim_end());
        if !may_hold_secret(&text) && !sets_secret(&text) {
            self.edited_texts.push(text.trim_end().to_owned());
        }
        Box::pin(self.lines(text.as_bytes(), file, on_error)).await
    }

    /// The text after the user has left the editor; `None` if it is unchanged or empty.
    fn edited(&self, file: Option<&str>) -> Result<Option<String>> {
        if !self.is_interactive {
            return Err(report::message("'\\e' needs a terminal"));
        }
        let (path, before, _folder) = match file {
            Some(file) => {
                let path = PathBuf::from(file);
                (path.clone(), fs::read_to_string(path).ok(), None)
            }
            None => {
                let statement = self.last_statement.as_deref().map_or("", String::as_str);
                let folder = PrivateFolder::new()?;
                let path = folder.0.join("statement.sql");
                fs::write(&path, statement)?;
                (path, Some(statement.to_owned()), Some(folder))
            }
        };
        let named = VARIABLES.into_iter().find_map(|name| env::var(name).ok());
        let editor = named.unwrap_or_else(|| DEFAULT.to_owned());
        let quoted = path.display().to_string().replace('\'', "'\\''");
        let quotes = if cfg!(windows) { '"' } else { '\'' };
        let status = system_shell(&format!("{editor} {quotes}{quoted}{quotes}")).status()?;
        if !status.success() {
            return Err(report::message(format!(
                "the editor '{editor}' failed ({status}), so nothing runs; the variable EDITOR names another one"
            )));
        }
        let after = fs::read_to_string(&path)
            .map_err(|e| report::message(format!("cannot read '{}': {e}", path.display())))?;
        let is_new = before.is_none_or(|before| before.trim() != after.trim());
        Ok(Some(after).filter(|after| is_new && !after.trim().is_empty()))
    }
}

/// A temporary folder that only this user can read, because a statement may hold a secret.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn new() -> Result<Self> {
        let number = std::process::id();
        for attempt in 0..100_u32 {
            let path = env::temp_dir().join(format!("tiledb-sql-{number}-{attempt}"));
            match create_private(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => return Ok(made.map(|()| Self(path))?),
            }
        }
        Err(report::message("cannot create a temporary folder"))
    }
}

fn create_private(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().mode(0o700).create(path)
    }
    #[cfg(not(unix))]
    fs::create_dir(path)
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // The system removes what is left.
        let _ = fs::remove_dir_all(&self.0);
    }
}
