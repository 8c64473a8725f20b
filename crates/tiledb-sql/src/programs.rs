//! Other programs that the shell runs: the pager, the editor, and those that read results.

use std::env;
use std::path::Path;
use std::process::Command;

/// A command line, as the system's shell runs it.
pub fn system_shell(command: &str) -> Command {
    let (shell, option) = if cfg!(windows) {
        ("cmd", "/C")
    } else {
        ("sh", "-c")
    };
    let mut shell = Command::new(shell);
    shell.args([option, command]);
    shell
}

/// Whether a folder of the variable PATH holds a program of this name.
pub fn is_on_path(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    let file = format!("{program}{}", env::consts::EXE_SUFFIX);
    env::split_paths(&folders).any(|folder| Path::new(&folder).join(&file).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found() {
        assert!(!is_on_path("no-program-of-this-name"));
        assert!(system_shell("exit 3").status().unwrap().code() == Some(3));
    }
}
