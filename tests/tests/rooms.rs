//! Rules of architecture: crates are on few levels, and the modules of each crate import one another without cycles.
//!
//! A *room* is a direct child module of a crate's `src`, with its contents. Imports are read from the tokens: every `use`, and
//! every path in code and in macros. Code only for tests may import without restriction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The largest number of levels of crates, the program's included.
const FLOORS: usize = 6;

#[test]
fn crates_are_on_few_levels() {
    let house = house();
    let mut floors: BTreeMap<&str, usize> = BTreeMap::new();
    while floors.len() < house.len() {
        let before = floors.len();
        for krate in &house {
            let below: Option<Vec<usize>> = krate.needs.iter().map(|name| floors.get(name.as_str()).copied()).collect();
            if let Some(below) = below {
                floors.insert(&krate.name, 1 + below.into_iter().max().unwrap_or(0));
            }
        }
        assert!(floors.len() > before, "cargo refuses circles of crates");
    }
    let highest = floors.values().max().expect("there are crates");
    assert!(*highest <= FLOORS, "at most {FLOORS} floors: {floors:#?}");
}

#[test]
fn imports_between_rooms_form_no_cycle_and_avoid_the_crate_root() {
    let house = house();
    let mut faults = Vec::new();
    let (mut rooms, mut imports) = (0, 0);
    for krate in &house {
        let edges = krate.imports(&mut faults);
        rooms += krate.rooms.len();
        let own = edges.values().map(BTreeSet::len).sum::<usize>();
        println!("{}: {} rooms, {own} imports between them", krate.name, krate.rooms.len());
        imports += own;
        for circle in circles(&edges) {
            faults.push(format!("{}: these rooms import one another: {}", krate.name, circle.join(", ")));
        }
    }
    println!("{} crates, {rooms} rooms, {imports} imports between rooms", house.len());
    assert!(rooms > 50 && imports > 50, "the house was read: {rooms} rooms, {imports} imports");
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Imports are read from the source exactly as written.
#[test]
fn imports_are_found_wherever_they_stand() {
    let text = "
        use crate::{a::{b, C}, d};
        pub(super) fn f(x: super::e::E) -> crate::g::H { vec![crate::i::j(), super::super::k::L] }
        mod inner { use super::m; use super::super::n::*; }
        #[cfg(test)] mod tests { use crate::o; }
        fn relative() { b::c(); std::mem::drop(1); }
        pub mod other; #[cfg(test)] mod for_tests;
        macro_rules! shown { () => { $crate::p::q } }
        pub use r::{self as s, t};
    ";
    let mut source = Source { module: vec!["room".into(), "file".into()], ..Source::default() };
    source.read(text.parse().unwrap());
    let imports: Vec<String> = source.imports.iter().map(|path| path.join("::")).collect();
    assert_eq!(imports, ["a::b", "a::C", "d", "room::e::E", "g::H", "i::j", "k::L", "room::file::m", "room::n", "p::q"]);
    assert_eq!((source.files, source.macros), (vec!["other".to_owned()], vec!["shown".to_owned()]));
    let names: Vec<&str> = source.names.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["b", "C", "d", "m", "*", "s", "t"]);
}

#[test]
fn a_cycle_is_found_and_a_chain_is_not() {
    let edges = |pairs: &[(&str, &str)]| {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (a, b) in pairs {
            edges.entry((*a).into()).or_default().insert((*b).into());
        }
        edges
    };
    assert_eq!(circles(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])), Vec::<Vec<String>>::new());
    assert_eq!(circles(&edges(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")])), [["b", "c"]]);
}

struct Crate {
    name: String,
    /// The crates of the workspace that this crate depends on.
    needs: Vec<String>,
    root: Source,
    /// The contents of each room's files.
    rooms: BTreeMap<String, Vec<Source>>,
}

/// Returns the crates of the workspace except the crate of the tests, which depends on all of them.
fn house() -> Vec<Crate> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root");
    let workspace = manifest(root);
    let members = workspace["workspace"]["members"].as_array().expect("members");
    let members = members.iter().map(|member| member.as_str().expect("a folder")).filter(|member| *member != "tests");
    members.map(|member| Crate::read(&root.join(member))).collect()
}

fn manifest(folder: &Path) -> toml::Table {
    std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest").parse().expect("TOML")
}

impl Crate {
    fn read(folder: &Path) -> Crate {
        let manifest = manifest(folder);
        let name = manifest["package"]["name"].as_str().expect("a name").to_owned();
        let needs = manifest["dependencies"].as_table().expect("dependencies").keys();
        let needs = needs.filter(|need| need.starts_with("gradus-")).cloned().collect();
        let src = folder.join("src");
        let root = Source::of(&if src.join("lib.rs").exists() { src.join("lib.rs") } else { src.join("main.rs") }, Vec::new());
        let rooms = root.files.iter().map(|room| (room.clone(), files(&src, vec![room.clone()]))).collect();
        Crate { name, needs, root, rooms }
    }

    /// Returns the room of a name that the crate's root re-exports or that a macro defines; no room if the name is another
    /// crate's.
    fn exported(&self, name: &str) -> Option<Option<&String>> {
        if let Some((_, path)) = self.root.names.iter().find(|(exported, _)| exported == name) {
            let first = path.iter().find(|part| !["crate", "self"].contains(&part.as_str()));
            return Some(first.filter(|first| self.rooms.contains_key(*first)));
        }
        let defines = |sources: &Vec<Source>| sources.iter().any(|source| source.macros.iter().any(|defined| defined == name));
        self.rooms.iter().find(|(_, sources)| defines(sources)).map(|(room, _)| Some(room))
    }

    /// Returns the rooms that each room imports. Records imports from the crate's root, which is above the room, as faults.
    fn imports(&self, faults: &mut Vec<String>) -> BTreeMap<String, BTreeSet<String>> {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (room, sources) in &self.rooms {
            for path in sources.iter().flat_map(|source| &source.imports) {
                // `use crate::*` has no first part.
                let to = path.first().and_then(|first| match self.rooms.get_key_value(first) {
                    Some((first, _)) => Some(Some(first)),
                    None => self.exported(first),
                });
                match to {
                    Some(to) => edges.entry(room.clone()).or_default().extend(to.filter(|to| *to != room).cloned()),
                    None => faults.push(format!("{}: {room} imports `{}` from the crate's root", self.name, path.join("::"))),
                }
            }
        }
        edges
    }
}

/// Reads the file of a module, and the files of the modules below it.
fn files(folder: &Path, module: Vec<String>) -> Vec<Source> {
    let below = folder.join(module.last().expect("not the root"));
    let file = [below.with_extension("rs"), below.join("mod.rs")].into_iter().find(|file| file.exists());
    let file = file.unwrap_or_else(|| panic!("{}: a module has a file", below.display()));
    let source = Source::of(&file, module.clone());
    let child = |child: &String| files(&below, [&module[..], std::slice::from_ref(child)].concat());
    let mut sources: Vec<Source> = source.files.iter().flat_map(child).collect();
    sources.push(source);
    sources
}

/// The contents of a file, except code only for tests.
#[derive(Default)]
struct Source {
    /// The module that is being read.
    module: Vec<String>,
    /// The modules in files of their own.
    files: Vec<String>,
    macros: Vec<String>,
    /// Each name that a `use` introduces, and its path as written.
    names: Vec<(String, Vec<String>)>,
    /// The imports from the file's own crate: paths from its root.
    imports: Vec<Vec<String>>,
}

impl Source {
    fn of(file: &Path, module: Vec<String>) -> Source {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut source = Source { module, ..Source::default() };
        source.read(text.parse().unwrap_or_else(|e| panic!("{}: {e}", file.display())));
        source
    }

    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        while let [first, after @ ..] = rest {
            rest = after;
            let word = if matches!(first, TokenTree::Group(_)) { String::new() } else { first.to_string() };
            match (word.as_str(), after) {
                ("#", [TokenTree::Group(attribute), item @ ..])
                    if attribute.stream().to_string().replace(' ', "") == "cfg(test)" =>
                {
                    let is_end = |token: &TokenTree| is(token, ';') || braces(token).is_some();
                    rest = &item[item.iter().position(is_end).map_or(item.len(), |end| end + 1)..];
                }
                ("mod", [name, body, ..]) if braces(body).is_some() => {
                    self.module.push(name.to_string());
                    self.read(braces(body).expect("seen").stream());
                    self.module.pop();
                    rest = &after[2..];
                }
                ("mod", [name, end, ..]) if is(end, ';') => self.files.push(name.to_string()),
                ("macro_rules", [_, name, ..]) => self.macros.push(name.to_string()),
                ("use", _) => {
                    let end = after.iter().position(|token| is(token, ';')).unwrap_or(after.len());
                    self.used(&after[..end], &[]);
                    rest = &after[end..];
                }
                _ => match first {
                    TokenTree::Group(group) => self.read(group.stream()),
                    TokenTree::Ident(first) => {
                        let mut path = vec![first.to_string()];
                        while let [a, b, TokenTree::Ident(next), more @ ..] = rest
                            && is(a, ':')
                            && is(b, ':')
                        {
                            path.push(next.to_string());
                            rest = more;
                        }
                        // A single word, such as the `crate` of `pub(crate)`, is not a path.
                        if path.len() > 1 {
                            self.import(&path);
                        }
                    }
                    _ => {}
                },
            }
        }
    }

    /// Records the tree of a `use`, below a path.
    fn used(&mut self, tree: &[TokenTree], above: &[String]) {
        for branch in tree.split(|token| is(token, ',')).filter(|branch| !branch.is_empty()) {
            let mut path = above.to_vec();
            let renamed = branch.iter().position(|token| token.to_string() == "as");
            for token in &branch[..renamed.unwrap_or(branch.len())] {
                match token.to_string().as_str() {
                    ":" | "*" => {}
                    "self" if !path.is_empty() => {}
                    _ if braces(token).is_none() => path.push(token.to_string()),
                    _ => {}
                }
            }
            let last = branch.last().expect("not empty");
            if let Some(group) = braces(last) {
                self.used(&group.stream().into_iter().collect::<Vec<_>>(), &path);
                continue;
            }
            self.import(&path);
            let name = if last.to_string() == "self" { path.last().expect("a path").clone() } else { last.to_string() };
            self.names.push((name, path));
        }
    }

    /// Records a path as written; a relative path stays in its room, or begins with a name that a `use` introduced.
    fn import(&mut self, path: &[String]) {
        let up = path.iter().take_while(|step| ["self", "super"].contains(&step.as_str()));
        let (from, up) = match path[0].as_str() {
            "crate" => (&[][..], 1),
            "self" | "super" => {
                let supers = up.clone().filter(|step| *step == "super").count();
                (&self.module[..self.module.len() - supers], up.count())
            }
            _ => return,
        };
        self.imports.push([from, &path[up..]].concat());
    }
}

fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

fn braces(token: &TokenTree) -> Option<&Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

/// Returns the largest sets of rooms that import one another, directly or indirectly.
fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reach = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(room) = open.pop() {
            open.extend(edges.get(room).into_iter().flatten().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = edges.keys().map(|room| (room, reach(room))).collect();
    let mut found = BTreeSet::new();
    for (room, all) in &reached {
        if all.contains(*room) {
            let circle: Vec<String> =
                all.iter().filter(|other| reached.get(other).is_some_and(|back| back.contains(*room))).cloned().collect();
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}
