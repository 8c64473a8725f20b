//! Which modules a source file names, read from its text; and that the modules of a folder depend on each other in one
//! direction: there is no way back to where one began.

use std::collections::{BTreeMap, BTreeSet};

use libtest_mimic::Failed;

/// Modules by their paths, with the text of each.
pub type Modules = BTreeMap<Vec<String>, String>;
/// Which module of a folder names which others.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// Every circle among the modules of one folder.
pub fn circles(modules: &Modules) -> Vec<String> {
    let mut folders: BTreeMap<Vec<String>, Edges> = BTreeMap::new();
    for (module, text) in modules {
        for used in used(text, module) {
            let target = known(&used, modules);
            let shared = module
                .iter()
                .zip(target)
                .take_while(|(a, b)| a == b)
                .count();
            if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                let edges = folders
                    .entry(target[..shared].to_vec())
                    .or_default()
                    .entry(from.clone())
                    .or_default();
                edges.insert(to.clone());
            }
        }
    }
    let circles = folders.iter().flat_map(|(folder, edges)| {
        let found = edges.keys().filter_map(|start| circle(start, edges));
        found.map(|circle| format!("{}: {circle}", folder.join("/")))
    });
    circles.collect()
}

/// The longest beginning of a path that is a module.
fn known<'a>(path: &'a [String], modules: &Modules) -> &'a [String] {
    let lengths = (0..=path.len()).rev();
    let mut beginnings = lengths.map(|length| &path[..length]);
    let module = beginnings.find(|path| modules.contains_key(*path));
    module.unwrap_or_default()
}

/// The shortest way from a module back to it.
fn circle(start: &str, edges: &Edges) -> Option<String> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().copied().unwrap_or_default();
            for next in edges.get(last).into_iter().flatten() {
                let way = [way.as_slice(), &[next.as_str()]].concat();
                if next == start {
                    return Some(way.join(" -> "));
                }
                if seen.insert(next.as_str()) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

trial!(finds_circles);
/// A made-up tree with a circle, which must be found, and without one.
fn finds_circles() -> Result<(), Failed> {
    let module = |name: &str, text: &str| {
        let path = name.split('/').map(str::to_owned).collect::<Vec<_>>();
        (path, text.to_owned())
    };
    let mut modules = Modules::from([
        module("a", "mod x; mod y; mod z;"),
        module("a/x", "use super::y::Y;"),
        module("a/y", "use crate::a::z::{self, Z};"),
        module("a/z", "// use super::x;\nfn f() {}"),
    ]);
    let none = circles(&modules);
    modules.insert(
        vec!["a".to_owned(), "z".to_owned()],
        "fn f() { super::x::g() }".to_owned(),
    );
    let some = circles(&modules);
    let expected = [
        "a: x -> y -> z -> x",
        "a: y -> z -> x -> y",
        "a: z -> x -> y -> z",
    ];
    if none.is_empty() && some == expected {
        Ok(())
    } else {
        Err(format!("found {none:?} and {some:?}").into())
    }
}

/// Every path into the crate that a file names, from the crate's root. `module` is the path of the file's own module.
pub fn used(text: &str, module: &[String]) -> Vec<Vec<String>> {
    let code = without_comments(text);
    let mut paths = Vec::new();
    let mut rest = code.as_str();
    // `use` declarations first, for their trees; what is left has plain paths.
    let mut plain = String::new();
    while let Some(at) = find_use(rest) {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        let end = after.find(';').unwrap_or(after.len());
        let tree = after[..end].trim_start_matches("use").trim();
        expand(&[], tree, &mut paths);
        rest = &after[end..];
    }
    plain.push_str(rest);
    for root in ["crate::", "super::"] {
        for (at, _) in plain.match_indices(root) {
            let before = plain[..at].chars().next_back();
            if before.is_some_and(|c| is_name(c) || c == ':') {
                continue;
            }
            let path = plain[at..].split(|c: char| !is_name(c) && c != ':').next();
            paths.push(segments(path.unwrap_or_default()));
        }
    }
    let paths = paths.into_iter();
    paths.filter_map(|path| from_root(&path, module)).collect()
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// Where the next `use` declaration begins.
fn find_use(text: &str) -> Option<usize> {
    let mut uses = text.match_indices("use ").map(|(at, _)| at);
    uses.find(|at| {
        let line = text[..*at].rsplit('\n').next().unwrap_or_default().trim();
        line.is_empty() || (line.starts_with("pub") && !line.contains(|c| "={;".contains(c)))
    })
}

/// The paths of a `use` tree.
fn expand(before: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    let Some((start, group)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        paths.push([before, &segments(name)].concat());
        return;
    };
    let before = [before, &segments(start)].concat();
    let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&before, group[begin..at].trim(), paths);
                begin = at + 1;
            }
            _ => {}
        }
    }
    let last = group[begin..].trim();
    if !last.is_empty() {
        expand(&before, last, paths);
    }
}

fn segments(path: &str) -> Vec<String> {
    let names = path.split("::").map(str::trim);
    names.filter(|s| !s.is_empty()).map(str::to_owned).collect()
}

/// A path from the crate's root; `None` if it leads into another crate.
fn from_root(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let mut base = module.to_vec();
    let mut path = path.iter().peekable();
    match path.peek()?.as_str() {
        "crate" => {
            base.clear();
            path.next();
        }
        "self" | "super" => {
            while let Some(name) = path.next_if(|name| matches!(name.as_str(), "self" | "super")) {
                if name == "super" {
                    base.pop()?;
                }
            }
        }
        _ => return None,
    }
    base.extend(path.filter(|name| *name != "self").cloned());
    Some(base)
}

trial!(finds_paths);
/// Paths of all kinds in a made-up file, which must be found.
fn finds_paths() -> Result<(), Failed> {
    let text = "use crate::a::{self, b::C, d::{E, F as G}};\npub(crate) use super::x;\nuse arrow::array::Array;\n\
                // use crate::no;\nfn f() { let y = crate::p::q(); super::super::r::s(); }";
    let module = ["m", "n"].map(str::to_owned);
    let mut found = used(text, &module)
        .into_iter()
        .map(|path| path.join("::"))
        .collect::<Vec<_>>();
    found.sort();
    if found == ["a", "a::b::C", "a::d::E", "a::d::F", "m::x", "p::q", "r::s"] {
        Ok(())
    } else {
        Err(format!("found {found:?}").into())
    }
}
