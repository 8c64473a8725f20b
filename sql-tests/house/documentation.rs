//! What README.md and the pages of `docs/` print works as printed: every statement runs, and what stands below one is
//! what the shell says. All pages run in one folder, one after the other, as somebody who follows them would.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;

use crate::support::folders::copy_folder;
use crate::support::shell_place::Place;

trial!(all_pages_in_one_folder);
fn all_pages_in_one_folder(place: &Place) -> Result<(), Failed> {
    copy_folder(
        &root().join("examples/data"),
        &place.0.join("examples/data"),
    )?;
    let mut failures = Vec::new();
    for page in pages() {
        let shown = page.strip_prefix(root()).unwrap_or(&page).display();
        if let Err(e) = runs_as_printed(&page, place) {
            failures.push(format!("{shown}: {}", e.message().unwrap_or_default()));
        }
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n\n").into())
    }
}

fn root() -> &'static Path {
    crate::repository()
}

/// The pages in the order of their names, and the README behind them.
fn pages() -> Vec<PathBuf> {
    let files = fs::read_dir(root().join("docs"))
        .expect("the documentation is there")
        .map(|file| file.expect("it can be listed").path());
    let mut pages: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|e| e == "md"))
        .collect();
    pages.sort();
    pages.push(root().join("README.md"));
    pages
}

/// A piece of a page between fences.
struct Block {
    language: String,
    text: String,
}

/// The blocks of a page, in order.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                // rustdoc takes a block of no language for a program.
                assert!(!language.is_empty(), "a block without a language:\n{page}");
                open = Some(Block {
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The statements of a page are those of one session; a block of `text` says what the last one before it prints.
fn runs_as_printed(page: &Path, place: &Place) -> Result<(), Failed> {
    let text = fs::read_to_string(page)?;
    let mut script = String::new();
    let (mut wanted, mut commands) = (Vec::new(), 0);
    for block in blocks(&text) {
        match block.language.as_str() {
            "sql" => script.push_str(&block.text),
            "text" => wanted.push(block.text),
            "console" => commands += usize::from(command(&block.text, place)?),
            _ => {}
        }
    }
    if page == root().join("README.md") && (commands == 0 || script.is_empty()) {
        return Err("the README has nothing that a test can run".into());
    }
    if script.is_empty() {
        return Ok(());
    }
    fs::write(place.0.join("page.sql"), &script)?;
    let ran = place.run(&["-q", "-f", "page.sql"])?;
    if ran.status != Some(0) {
        return Err(format!("{}\n{}", ran.out, ran.err).into());
    }
    for wanted in wanted {
        if !ran.out.contains(&wanted) {
            return Err(format!("printed:\n{wanted}\nfound:\n{}", ran.out).into());
        }
    }
    Ok(())
}

/// Runs a command that starts the shell, and compares what it prints; says whether the block was one.
fn command(block: &str, place: &Place) -> Result<bool, Failed> {
    let (line, wanted) = block.split_once('\n').unwrap_or((block, ""));
    let statement = line.strip_prefix("$ cargo run -- -c \"");
    let Some(statement) = statement.and_then(|rest| rest.strip_suffix('"')) else {
        return Ok(false);
    };
    let ran = place.run(&["-c", statement])?;
    if ran.status != Some(0) || !ran.out.contains(wanted) {
        return Err(format!("printed:\n{wanted}\nfound:\n{}\n{}", ran.out, ran.err).into());
    }
    Ok(true)
}
