//! No two types share a name, and few names are a single word: whoever meets a type knows which one it is, and what it is about.
//!
//! Types of tests don't count. A test module is recognized by its `#[cfg(test)]`, or by a `cfg` that names the feature `testing`.

use std::collections::{BTreeMap, HashSet};

use libtest_mimic::Failed;

use super::modules::Modules;
use super::{CRATES, modules, root};

/// The largest share of types whose name is a single word.
const ONE_WORD_PERCENT: usize = 15;

trial!(types_have_names_of_their_own);
/// Scans the sources of all crates, and lists the names that break the rule.
fn types_have_names_of_their_own() -> Result<(), Failed> {
    let mut crates = Vec::new();
    for rules in &CRATES {
        let found = modules(&root().join(rules.src))
            .map_err(|e| format!("cannot read {}: {e}", rules.src))?;
        crates.push((rules.src, found));
    }
    let wrong = wrong_names(&crates);
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}

/// Lists the names that several types have, and the names of one word if there are too many.
fn wrong_names(crates: &[(&str, Modules)]) -> Vec<String> {
    let mut types = BTreeMap::<String, Vec<String>>::new();
    for (src, modules) in crates {
        let tests = test_modules(modules);
        let is_test = |module: &[String]| (1..=module.len()).any(|n| tests.contains(&module[..n]));
        for (module, text) in modules.iter().filter(|(module, _)| !is_test(module)) {
            for name in type_names(text) {
                let place = format!("{src}/{}", module.join("/"));
                types.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    let shared = types.iter().filter(|(_, places)| places.len() > 1);
    let mut wrong = shared
        .map(|(name, places)| format!("several types are called {name}: {}", places.join(", ")))
        .collect::<Vec<_>>();
    let count = types.values().map(Vec::len).sum::<usize>();
    let one_word = types
        .keys()
        .filter(|name| words(name) == 1)
        .map(String::as_str)
        .collect::<Vec<_>>();
    if one_word.len() * 100 > count * ONE_WORD_PERCENT {
        wrong.push(format!(
            "{} of {count} types have names of one word, more than {ONE_WORD_PERCENT} %; give them a word of their domain: {}",
            one_word.len(),
            one_word.join(", ")
        ));
    }
    wrong
}

/// The modules that only tests have.
fn test_modules(modules: &Modules) -> HashSet<Vec<String>> {
    let mut tests = HashSet::new();
    for (module, text) in modules {
        let mut is_test = false;
        for line in text.lines() {
            let line = line.trim_start();
            if is_test_cfg(line) {
                is_test = true;
            } else if let Some(name) = after(line, "mod") {
                if is_test {
                    tests.insert([module.as_slice(), &[name.to_owned()]].concat());
                }
                is_test = false;
            } else if !line.starts_with("//") && !line.starts_with("#[") {
                is_test = false;
            }
        }
    }
    tests
}

fn is_test_cfg(line: &str) -> bool {
    line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(any(test, feature = \"testing\"))]")
}

/// The names of the types that a text defines, apart from those of its tests, which are its last item.
fn type_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let lines = text.lines().collect::<Vec<_>>();
    for (number, line) in lines.iter().enumerate() {
        let next = lines[number + 1..].iter().find(|l| !l.starts_with("#["));
        if is_test_cfg(line) && next.is_some_and(|l| l.contains("mod ") && l.ends_with('{')) {
            break;
        }
        let code = line.trim_start();
        let mut found = ["struct", "enum", "trait"]
            .iter()
            .find_map(|word| after(code, word));
        // Elsewhere, `type` belongs to a trait.
        if code.len() == line.len() {
            found = found.or_else(|| after(code, "type"));
        }
        names.extend(found);
    }
    names
}

/// The name that follows a keyword at the beginning of an item, whatever its visibility is.
fn after<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let item = match line.strip_prefix("pub") {
        Some(item) if item.starts_with('(') => item.split_once(") ")?.1,
        Some(item) => item.strip_prefix(' ')?,
        None => line,
    };
    let name = item.strip_prefix(keyword)?.strip_prefix(' ')?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(&name[..end.unwrap_or(name.len())]).filter(|name| !name.is_empty())
}

/// The number of words of a name in camel case.
fn words(name: &str) -> usize {
    name.chars().filter(char::is_ascii_uppercase).count()
}

trial!(finds_names);
/// Made-up crates with shared names and names of one word, which must be found.
fn finds_names() -> Result<(), Failed> {
    let module = |path: &[&str], text: &str| {
        let path = path.iter().map(|name| (*name).to_owned());
        (path.collect::<Vec<_>>(), text.to_owned())
    };
    let engine = Modules::from([
        module(
            &[],
            "mod scan;\n/// Doubles.\n#[cfg(test)]\nmod doubles;\n#[cfg(any(test, feature = \"testing\"))]\npub mod worlds;\n",
        ),
        module(
            &["scan"],
            "pub(super) struct TilePlan<'a>(&'a u8);\nimpl X for Y {\n    type Item = u8;\n}\ntype TileList = Vec<u8>;\n\
             fn f() {\n    enum Way {}\n}\n#[cfg(test)]\nmod tests {\n    struct TilePlan;\n}\n",
        ),
        module(&["doubles"], "struct TilePlan;\n"),
        module(&["worlds", "deep"], "struct TilePlan;\n"),
    ]);
    let sql = Modules::from([module(
        &["plan"],
        "pub trait TilePlan: Sized {}\npub enum TileKind {}\n",
    )]);
    let found = wrong_names(&[("a", engine), ("b", sql)]);
    let expected = [
        "several types are called TilePlan: a/scan, b/plan",
        "1 of 5 types have names of one word, more than 15 %; give them a word of their domain: Way",
    ];
    if found == expected {
        Ok(())
    } else {
        Err(format!("found {found:?}").into())
    }
}
