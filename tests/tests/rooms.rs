//! The house: crates on few floors, and in each crate rooms that lean on one another one way only.
//!
//! A *room* is a direct child module of a crate's `src`, with all that is in it. Imports are read from the syntax: every `use`, every
//! path in code, every `crate::…` in the tokens of a macro. What only tests see may import as it likes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// Floors of crates, the program's included.
const FLOORS: usize = 6;

#[test]
fn crates_stand_on_few_floors() {
    let house = House::read();
    let mut floors: BTreeMap<&str, usize> = BTreeMap::new();
    while floors.len() < house.crates.len() {
        let before = floors.len();
        for krate in &house.crates {
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
fn no_import_between_rooms_closes_a_circle_or_climbs() {
    let house = House::read();
    let mut faults = Vec::new();
    let (mut rooms, mut imports) = (0, 0);
    for krate in &house.crates {
        let edges = krate.imports(&mut faults);
        rooms += krate.rooms.len();
        imports += edges.values().map(BTreeSet::len).sum::<usize>();
        for circle in circles(&edges) {
            faults.push(format!("{}: these rooms import one another: {}", krate.name, circle.join(", ")));
        }
    }
    println!("{} crates, {rooms} rooms, {imports} imports between rooms", house.crates.len());
    assert!(rooms > 50 && imports > 50, "the house was read: {rooms} rooms, {imports} imports");
    assert!(faults.is_empty(), "{faults:#?}");
}

/// What is read is what stands there.
#[test]
fn imports_are_found_wherever_they_stand() {
    let text = "
        use crate::{a::{b, C}, d};
        pub(super) fn f(x: super::e::E) -> crate::g::H { vec![crate::i::j(), super::super::k::L] }
        mod inner { use super::m; use super::super::n::*; }
        #[cfg(test)] mod tests { use crate::o; }
        fn relative() { b::c(); std::mem::drop(1); }
    ";
    let mut seen = Imports { module: vec!["room".into(), "file".into()], found: Vec::new() };
    seen.visit_file(&syn::parse_file(text).unwrap());
    let found: Vec<String> = seen.found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["a::b", "a::C", "d", "room::e::E", "g::H", "i::j", "k::L", "room::file::m", "room::n"]);
}

#[test]
fn a_circle_is_found_and_a_chain_is_none() {
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

/// The crates of the workspace but that of the tests, which stands on all of them.
struct House {
    crates: Vec<Crate>,
}

struct Crate {
    name: String,
    /// Crates of the workspace that it is built on.
    needs: Vec<String>,
    rooms: BTreeSet<String>,
    root: syn::File,
    /// By room, what its files import: paths from the crate's root.
    found: BTreeMap<String, Vec<Vec<String>>>,
    /// The rooms of macros that are exported.
    macros: BTreeMap<String, String>,
}

impl House {
    fn read() -> House {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root");
        let workspace = manifest(root);
        let members = workspace["workspace"]["members"].as_array().expect("members");
        let members = members.iter().map(|member| member.as_str().expect("a folder")).filter(|member| *member != "tests");
        House { crates: members.map(|member| Crate::read(&root.join(member))).collect() }
    }
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
        let root = parse(&if src.join("lib.rs").exists() { src.join("lib.rs") } else { src.join("main.rs") });
        let mut krate = Crate { name, needs, rooms: BTreeSet::new(), root, found: BTreeMap::new(), macros: BTreeMap::new() };
        for room in modules(&krate.root.items) {
            krate.rooms.insert(room.clone());
            krate.file(&src, vec![room]);
        }
        krate
    }

    /// Reads the file of a module, and those below it.
    fn file(&mut self, folder: &Path, module: Vec<String>) {
        let name = module.last().expect("not the root");
        let below = folder.join(name);
        let file = [folder.join(format!("{name}.rs")), below.join("mod.rs")].into_iter().find(|file| file.exists());
        let file = parse(&file.unwrap_or_else(|| panic!("{}: the module {} has a file", self.name, module.join("::"))));
        let mut seen = Imports { module: module.clone(), found: Vec::new() };
        seen.visit_file(&file);
        self.found.entry(module[0].clone()).or_default().append(&mut seen.found);
        for item in &file.items {
            if let Item::Macro(syn::ItemMacro { ident: Some(ident), attrs, .. }) = item
                && attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"))
            {
                self.macros.insert(ident.to_string(), module[0].clone());
            }
        }
        for child in modules(&file.items) {
            self.file(&below, [&module[..], &[child]].concat());
        }
    }

    /// Which rooms each room imports. Faults: what a room imports from the crate's root, which stands above it.
    fn imports(&self, faults: &mut Vec<String>) -> BTreeMap<String, BTreeSet<String>> {
        let mut exports: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for item in &self.root.items {
            if let Item::Use(item) = item {
                leaves(&item.tree, &mut Vec::new(), &mut |path, name| drop(exports.insert(name, path.to_vec())));
            }
        }
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (room, path) in self.found.iter().flat_map(|(room, paths)| paths.iter().map(move |path| (room, path))) {
            let Some(first) = path.first() else {
                faults.push(format!("{}: {room} imports all of the crate's root", self.name));
                continue;
            };
            let exported = || exports.get(first).map(|path| path.iter().find(|part| !["crate", "self"].contains(&part.as_str())));
            let to = match exported() {
                _ if self.rooms.contains(first) => first,
                Some(Some(module)) if self.rooms.contains(module) => module,
                Some(_) => continue, // another crate's
                None => match self.macros.get(first) {
                    Some(room) => room,
                    None => {
                        faults.push(format!("{}: {room} imports {} from the crate's root", self.name, path.join("::")));
                        continue;
                    }
                },
            };
            if to != room {
                edges.entry(room.clone()).or_default().insert(to.clone());
            }
        }
        edges
    }
}

fn parse(file: &PathBuf) -> syn::File {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The modules in files of their own, but those for tests.
fn modules(items: &[Item]) -> Vec<String> {
    let module = |item: &Item| match item {
        Item::Mod(module) if module.content.is_none() && !is_for_tests(&module.attrs) => Some(module.ident.to_string()),
        _ => None,
    };
    items.iter().filter_map(module).collect()
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| attribute.parse_args::<syn::Path>().is_ok_and(|of| of.is_ident("test"));
    attributes.iter().any(|attribute| attribute.path().is_ident("cfg") && is_test(attribute))
}

/// Calls `leaf(path, name)` for everything that a `use` names.
fn leaves(tree: &UseTree, path: &mut Vec<String>, leaf: &mut dyn FnMut(&[String], String)) {
    let mut with = |part: &syn::Ident, name: &syn::Ident| {
        if part != "self" {
            path.push(part.to_string());
        }
        let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name.to_string() };
        leaf(path, name);
        if part != "self" {
            path.pop();
        }
    };
    match tree {
        UseTree::Name(name) => with(&name.ident, &name.ident),
        UseTree::Rename(rename) => with(&rename.ident, &rename.rename),
        UseTree::Glob(_) => leaf(path, "*".into()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, path, leaf)),
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            leaves(&step.tree, path, leaf);
            path.pop();
        }
    }
}

/// What a file imports of its own crate.
struct Imports {
    /// The module that is being read.
    module: Vec<String>,
    /// Paths from the crate's root.
    found: Vec<Vec<String>>,
}

impl Imports {
    /// A path as it is written; relative ones stay in their room, or begin with what a `use` has named.
    fn add(&mut self, path: &[String]) {
        let (mut at, mut rest) = (self.module.clone(), path);
        match path.first().map(String::as_str) {
            Some("crate") => (at, rest) = (Vec::new(), &path[1..]),
            Some("self" | "super") => {
                while let Some(step @ ("self" | "super")) = rest.first().map(String::as_str) {
                    if step == "super" {
                        at.pop();
                    }
                    rest = &rest[1..];
                }
            }
            _ => return,
        }
        self.found.push([&at[..], rest].concat());
    }

    /// Paths in the tokens of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons): (Vec<String>, usize) = (Vec::new(), 0);
        for token in tokens {
            match &token {
                TokenTree::Ident(ident) if !path.is_empty() && colons == 2 => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons += 1,
                other => {
                    self.written(&std::mem::take(&mut path));
                    colons = 0;
                    match other {
                        TokenTree::Ident(ident) => path.push(ident.to_string()),
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        self.written(&path);
    }

    /// A path among tokens; a single word is none, such as that of `pub(crate)`.
    fn written(&mut self, path: &[String]) {
        if path.len() > 1 {
            self.add(path);
        }
    }
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        match item {
            _ if is_for_tests(attributes) => {}
            Item::Use(item) => leaves(&item.tree, &mut Vec::new(), &mut |path, _| self.add(path)),
            Item::Mod(item) => {
                self.module.push(item.ident.to_string());
                visit::visit_item_mod(self, item);
                self.module.pop();
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        visit::visit_macro(self, called);
        self.tokens(called.tokens.clone());
    }

    /// `pub(super)` imports nothing.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

/// The largest sets of rooms that reach one another.
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
