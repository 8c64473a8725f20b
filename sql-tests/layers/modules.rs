//! The modules of a folder depend on each other in one direction: there is no way back to where one began.

use std::collections::{BTreeMap, BTreeSet};

use super::paths;

/// Modules by their paths, with the text of each.
pub type Modules = BTreeMap<Vec<String>, String>;
/// Which module of a folder names which others.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// Every circle among the modules of one folder.
pub fn circles(modules: &Modules) -> Vec<String> {
    let mut folders: BTreeMap<Vec<String>, Edges> = BTreeMap::new();
    for (module, text) in modules {
        for used in paths::used(text, module) {
            let target = known(&used, modules);
            let shared = module.iter().zip(target).take_while(|(a, b)| a == b);
            let shared = shared.count();
            if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                let edges = folders.entry(target[..shared].to_vec()).or_default();
                let edges = edges.entry(from.clone()).or_default();
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

/// A made-up tree with a circle, which must be found, and without one.
pub fn finds_circles() -> Result<(), String> {
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
    match none.is_empty() && some == expected {
        true => Ok(()),
        false => Err(format!("found {none:?} and {some:?}")),
    }
}
