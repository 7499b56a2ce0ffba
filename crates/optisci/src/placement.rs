//! Which node each process and each copy of a segment is on.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::check::no_node;
use crate::model::file::{Whole, parse};
use crate::report::{self, Named};
use crate::topology::Node;
use crate::{Error, Model};

/// A placement of the processes and segments of a model, by their indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The node of each process.
    pub processes: Vec<Node>,
    /// The home of each segment.
    pub segments: Vec<Home>,
}

/// Where a segment lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// On one node.
    One(Node),
    /// A copy on each of these nodes: at least one, ascending, none twice.
    Copies(Box<[Node]>),
}

impl Home {
    /// The home with a copy on each of `nodes`.
    ///
    /// # Panics
    /// When `nodes` is empty: a segment lives somewhere.
    pub fn of(nodes: impl Into<Vec<Node>>) -> Home {
        let mut nodes = nodes.into();
        nodes.sort_unstable();
        nodes.dedup();
        match nodes[..] {
            [] => panic!("a segment lives on at least one node"),
            [node] => Home::One(node),
            _ => Home::Copies(nodes.into()),
        }
    }

    /// Its nodes, ascending.
    pub fn nodes(&self) -> &[Node] {
        match self {
            Home::One(node) => std::slice::from_ref(node),
            Home::Copies(nodes) => nodes,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, deserialize_with = "each_once")]
    processes: BTreeMap<String, Whole>,
    #[serde(default, deserialize_with = "each_once")]
    segments: BTreeMap<String, Nodes>,
}

/// A map of which no key stands twice: JSON has the last one win.
fn each_once<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error> {
    struct Entries<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object with an entry for each id")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((id, value)) = entries.next_entry::<String, T>()? {
                if map.contains_key(&id) {
                    return Err(A::Error::custom(format!("\"{id}\" is there twice")));
                }
                map.insert(id, value);
            }
            Ok(map)
        }
    }
    deserializer.deserialize_map(Entries(PhantomData))
}

#[derive(Serialize)]
struct Written<'a> {
    processes: Named<'a, Whole>,
    segments: Named<'a, Nodes>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a node, or a list of nodes for a segment with copies")]
enum Nodes {
    One(Whole),
    Copies(Vec<Whole>),
}

impl Placement {
    /// Reads a placement file: `{"processes": {id: node}, "segments": {id: node or [nodes]}}`.
    ///
    /// # Errors
    /// The field, by its JSON path, and what was expected there: every id of the model, no other, nodes that exist.
    pub fn from_json(text: &str, model: &Model) -> Result<Placement, Error> {
        let File { mut processes, mut segments } = parse(text)?;
        let missing = |list: &str, id: &str| {
            Error::at_path(key(list, id), "is missing: a placement names every process and segment of the model")
        };
        let node = |path: &dyn Fn() -> String, Whole(node): Whole| match (node as usize) < model.nodes() {
            true => Ok(node as Node),
            false => Err(Error::at_path(path(), no_node(node, model.nodes()))),
        };
        let process_nodes = model.processes.iter().map(|process| {
            let place = processes.remove(&process.id).ok_or_else(|| missing("processes", &process.id))?;
            node(&|| key("processes", &process.id), place)
        });
        let process_nodes = process_nodes.collect::<Result<Vec<Node>, Error>>()?;
        let homes = model.segments.iter().map(|segment| {
            let path = || key("segments", &segment.id);
            match segments.remove(&segment.id).ok_or_else(|| missing("segments", &segment.id))? {
                Nodes::One(place) => Ok(Home::One(node(&path, place)?)),
                Nodes::Copies(places) if places.is_empty() => {
                    Err(Error::at_path(path(), "is an empty list: a segment lives on at least one node"))
                }
                Nodes::Copies(places) => {
                    let places = places.into_iter().enumerate();
                    let nodes = places.map(|(index, place)| node(&|| format!("{}[{index}]", path()), place));
                    let nodes = nodes.collect::<Result<Vec<Node>, Error>>()?;
                    let count = nodes.len();
                    let home = Home::of(nodes);
                    match home.nodes().len() == count {
                        true => Ok(home),
                        false => Err(Error::at_path(path(), "names a node twice: one copy per node is enough")),
                    }
                }
            }
        });
        let homes = homes.collect::<Result<Vec<Home>, Error>>()?;
        let strange = processes.keys().next().map(|id| ("processes", "process", id));
        if let Some((list, kind, id)) = strange.or(segments.keys().next().map(|id| ("segments", "segment", id))) {
            return Err(Error::at_path(key(list, id), format!("the model has no {kind} of this id")));
        }
        Ok(Placement { processes: process_nodes, segments: homes })
    }

    /// The placement as a file, which [`from_json`](Placement::from_json) reads as the same placement.
    pub fn to_json(&self, model: &Model) -> String {
        report::placement(model, self)
    }

    /// What stands in the file, ids in the model's order.
    pub(crate) fn to_file<'a>(&self, model: &'a Model) -> impl Serialize + use<'a> {
        let whole = |&node: &Node| Whole(u64::from(node));
        let processes = model.processes.iter().zip(&self.processes);
        let segments = model.segments.iter().zip(&self.segments).map(|(segment, home)| {
            let nodes = match home {
                Home::One(node) => Nodes::One(whole(node)),
                Home::Copies(nodes) => Nodes::Copies(nodes.iter().map(whole).collect()),
            };
            (segment.id.as_str(), nodes)
        });
        Written {
            processes: Named(processes.map(|(process, node)| (process.id.as_str(), whole(node))).collect()),
            segments: Named(segments.collect()),
        }
    }
}

fn key(list: &str, id: &str) -> String {
    format!("{list}.{id}")
}
