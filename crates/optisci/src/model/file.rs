//! The model file: JSON, version 1. Ids are strings, sizes bytes, times nanoseconds; unknown fields are refused.
//!
//! The types here are the file as it is written; `check.rs` says which of them make a model.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::{Objective, Op, Readings};
use crate::Error;

/// Reads a JSON text; what is wrong is told with its path.
///
/// Keeping the path costs an allocation per field, so it is kept only when a text is read again because it is broken.
pub(crate) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    // An array would be taken for the values of all fields in turn.
    match text.trim_start_matches([' ', '\t', '\r', '\n']).chars().next() {
        Some('{') => {}
        Some(other) => return Err(Error::whole(format!("begins with {other:?}: a JSON object is expected"))),
        None => return Err(Error::whole("is empty: a JSON object is expected")),
    }
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        // So it names the whole, and what it has lost the way to.
        let path = if path == "." || path == "?" { String::new() } else { path };
        let what = error.inner().to_string();
        match missing_field(&what) {
            Some(field) if path.is_empty() => Error::at_path(field, "is missing"),
            Some(field) => Error::at_path(format!("{path}.{field}"), "is missing"),
            None => Error::at_path(path, what),
        }
    })?;
    reader.end().map_err(|error| Error::whole(error.to_string()))?;
    Ok(value)
}

/// Which field is missing, if that is what serde says is wrong: it names the object that should have it, and not the
/// field, by its path.
fn missing_field(what: &str) -> Option<&str> {
    what.strip_prefix("missing field `")?.split_once('`').map(|(field, _)| field)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Whole>,
    #[serde(deserialize_with = "object")]
    pub topology: TopologyEntry,
    #[serde(deserialize_with = "object")]
    pub cost_model: CostModelEntry,
    #[serde(default, deserialize_with = "objects")]
    pub processes: Vec<ProcessEntry>,
    #[serde(default, deserialize_with = "objects")]
    pub segments: Vec<SegmentEntry>,
    #[serde(default, borrow, deserialize_with = "objects")]
    pub accesses: Vec<AccessEntry<'a>>,
    #[serde(default, borrow, deserialize_with = "objects")]
    pub messages: Vec<MessageEntry<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_slots: Option<Vec<Option<Whole>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment_slots: Option<Vec<Option<Whole>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Vec<Option<Whole>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
}

/// A model file of whatever version: what it has besides is of no interest.
#[derive(Deserialize)]
pub(crate) struct OfSomeVersion {
    #[serde(default)]
    pub version: Option<Whole>,
}

/// Any topology: which fields it may have depends on its kind, and a field of another kind must be told with its path,
/// which serde's tagged enums cannot do.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopologyEntry {
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Whole>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dims: Option<Vec<Whole>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radices: Option<Vec<Whole>>,
}

/// Any cost model, for the same reason.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CostModelEntry {
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_mhz: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_mhz: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge_mhz: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_mhz: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object_or_none")]
    pub readings: Option<Readings>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ns: Option<Vec<Vec<f64>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ns: Option<Vec<Vec<f64>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ns_per_byte: Option<Vec<Vec<f64>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ns_per_byte: Option<Vec<Vec<f64>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns_per_byte_hop: Option<f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProcessEntry {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Whole>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentEntry {
    pub id: String,
    #[serde(default)]
    pub bytes: Whole,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Whole>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicable: Option<bool>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccessEntry<'a> {
    #[serde(borrow)]
    pub process: Cow<'a, str>,
    #[serde(borrow)]
    pub segment: Cow<'a, str>,
    pub op: Op,
    pub count: Whole,
    pub size: Whole,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageEntry<'a> {
    #[serde(borrow)]
    pub from: Cow<'a, str>,
    #[serde(borrow)]
    pub to: Cow<'a, str>,
    pub count: Whole,
    pub size: Whole,
}

/// What is written as an object, and what people are told who wrote something else.
pub(crate) trait Entry {
    /// "an object with ..."
    const EXPECTED: &'static str;
}

impl Entry for TopologyEntry {
    const EXPECTED: &'static str = "an object with the kind of the machine and its dims or radices";
}
impl Entry for CostModelEntry {
    const EXPECTED: &'static str = "an object with the kind of the costs and their numbers";
}
impl Entry for Readings {
    const EXPECTED: &'static str = "an object with the readings that differ from the default";
}
impl Entry for ProcessEntry {
    const EXPECTED: &'static str = "an object with the id of a process, and its pin if it has one";
}
impl Entry for SegmentEntry {
    const EXPECTED: &'static str = "an object with the id and bytes of a segment";
}
impl Entry for AccessEntry<'_> {
    const EXPECTED: &'static str = "an object with process, segment, op, count and size";
}
impl Entry for MessageEntry<'_> {
    const EXPECTED: &'static str = "an object with from, to, count and size";
}

/// Reads an entry, which is an object. What serde derives would also take an array, for the values of the fields in the
/// order in which the types above happen to name them.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Entry + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(entry)| entry)
}

/// Reads an entry or null.
pub(crate) fn object_or_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Entry + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.map(|Object(entry)| entry))
}

/// Reads a list of entries.
pub(crate) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Entry + Deserialize<'de>,
{
    Ok(Vec::deserialize(deserializer)?.into_iter().map(|Object(entry)| entry).collect())
}

struct Object<T>(T);

impl<'de, T: Entry + Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Object)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Entry + Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields))
    }
}

/// A whole number that every JSON reader keeps exactly: 0 to 2^53. Other programs write 300 as 300.0: that is taken
/// too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Whole(pub u64);

/// The largest number that a double and an integer agree about.
pub(crate) const LARGEST_WHOLE: u64 = 1 << 53;

impl Serialize for Whole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole, D::Error> {
        deserializer.deserialize_any(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0 to 2^53")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole, E> {
        let wrong = || E::invalid_value(de::Unexpected::Unsigned(number), &self);
        Some(Whole(number)).filter(|_| number <= LARGEST_WHOLE).ok_or_else(wrong)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Whole, E> {
        let wrong = |_| E::invalid_value(de::Unexpected::Signed(number), &self);
        u64::try_from(number).map_err(wrong).and_then(|number| self.visit_u64(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Whole, E> {
        if number.fract() == 0.0 && (0.0..=LARGEST_WHOLE as f64).contains(&number) {
            return Ok(Whole(number as u64));
        }
        Err(E::invalid_value(de::Unexpected::Float(number), &self))
    }
}
