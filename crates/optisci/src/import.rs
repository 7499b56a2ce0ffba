//! Models from what other tools wrote.
//!
//! A file tells the machine (hwloc, Scotch targets), the program (matrices, Open MPI's monitoring, graphs), both (a
//! model, DECK's access records), or where things were put (mappings). What a file does not tell is taken from another
//! model, or assumed, and then said in a note.

mod csv;
mod hwloc;
mod lines;
mod mapping;
mod matrix;
mod metis;
mod openmpi;
mod record;
mod scotch;

use std::result;

use crate::counted::counted;
use crate::model::Objective;
use crate::program::{Machine, Program};
use crate::{Error, Model, Placement};

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A model: read, checked, and written again.
    Json,
    /// Tables of processes, segments and matrices of accesses; see `docs/guide/placement.md`.
    Csv,
    /// A square matrix of bytes that processes send to each other, numbers only.
    Matrix,
    /// Open MPI's monitoring component: one `.prof` file per rank.
    OpenMpi,
    /// A machine as `lstopo` of hwloc 2 writes it (XML).
    Hwloc,
    /// A graph of METIS: vertices are processes.
    Metis,
    /// A graph of Scotch: vertices are processes.
    ScotchGraph,
    /// A target architecture of Scotch: a machine.
    ScotchTarget,
    /// DECK's access records: what a program really did.
    Record,
    /// Where the processes and segments of access records were: a placement.
    RecordPlacement,
    /// A mapping that Scotch computed: a placement.
    ScotchMap,
    /// A partition that METIS computed: a placement.
    MetisPart,
}

/// What the formats are, for the help of a command.
pub const HELP: &str = "\
A machine or a program alone is completed from the model of --onto, or by assumptions that are told.

Formats that give a model:
  json              a model: read, checked, and written again
  csv               tables of processes and segments, matrices of accesses and
                    of costs
  matrix            a square matrix of bytes that processes send to each other
  openmpi           Open MPI's monitoring: the .prof files of all ranks
  hwloc             the machine: XML of `lstopo --of xml`, hwloc 2
  metis             a graph of METIS; vertices become processes
  scotch-graph      a graph of Scotch (.grf); vertices become processes
  scotch-target     the machine: an architecture of Scotch (.tgt)
  record            DECK's access records: what a program really did
Formats that give a placement of the model of --onto:
  record-placement  where DECK's access records say that things were
  scotch-map        a mapping of Scotch (.map)
  metis-part        a partition of METIS (.part.N)

Examples:
  lstopo --of xml machine.xml
  deck place import hwloc machine.xml -o machine.json
  deck place import openmpi halo.*.prof --onto machine.json -o model.json";

impl Format {
    /// All of them.
    pub const ALL: [Format; 12] = [
        Format::Json,
        Format::Csv,
        Format::Matrix,
        Format::OpenMpi,
        Format::Hwloc,
        Format::Metis,
        Format::ScotchGraph,
        Format::ScotchTarget,
        Format::Record,
        Format::RecordPlacement,
        Format::ScotchMap,
        Format::MetisPart,
    ];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Matrix => "matrix",
            Format::OpenMpi => "openmpi",
            Format::Hwloc => "hwloc",
            Format::Metis => "metis",
            Format::ScotchGraph => "scotch-graph",
            Format::ScotchTarget => "scotch-target",
            Format::Record => "record",
            Format::RecordPlacement => "record-placement",
            Format::ScotchMap => "scotch-map",
            Format::MetisPart => "metis-part",
        }
    }

    /// The format that users call `name`, or whose files usually end so.
    pub fn of(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name).or_else(|| Format::of_ending(name))
    }

    fn of_ending(ending: &str) -> Option<Format> {
        match ending {
            "mat" => Some(Format::Matrix),
            "prof" => Some(Format::OpenMpi),
            "xml" => Some(Format::Hwloc),
            "graph" => Some(Format::Metis),
            "grf" | "src" => Some(Format::ScotchGraph),
            "tgt" => Some(Format::ScotchTarget),
            "map" => Some(Format::ScotchMap),
            "part" => Some(Format::MetisPart),
            _ => None,
        }
    }

    /// The format that a file seems to have, by its name and first characters: for files that are dropped somewhere.
    pub fn guess(name: &str, text: &str) -> Option<Format> {
        let (stem, ending) = name.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "json" if text.contains("\"deck_access_record\"") => Some(Format::Record),
            "json" => Some(Format::Json),
            "csv" => Some(Format::Csv),
            "txt" => Some(Format::Matrix),
            _ if stem.ends_with(".part") => Some(Format::MetisPart),
            ending => Format::of_ending(ending),
        }
    }
}

/// A file that was read.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What an import gave.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The model or placement.
    pub result: Result,
    /// What was measured, what was assumed, and what was left out.
    pub notes: Vec<String>,
}

/// A model, or a placement of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Result {
    /// A model.
    Model(Model),
    /// A placement, and the model that it places.
    Placement(Model, Placement),
}

/// What the files of one format say together.
#[derive(Default)]
struct Found {
    id: Option<String>,
    objective: Option<Objective>,
    machine: Option<Machine>,
    program: Option<Program>,
    notes: Vec<String>,
    /// How many processes ran on each node, where that is told and the machine is not.
    ran: Vec<u64>,
}

/// Reads files of one format. `base` gives what they do not tell.
///
/// # Errors
/// The file, the line or the JSON path, and what was expected there.
pub fn read(format: Format, inputs: &[Input<'_>], base: Option<Model>) -> result::Result<Imported, Error> {
    let one = || match inputs {
        [input] => Ok(*input),
        _ => Err(Error::whole(format!("{} files were given: {} takes one", inputs.len(), format.name()))),
    };
    let program = |program| Found { program: Some(program), ..Found::default() };
    let base_model = |base: Option<Model>| {
        base.ok_or_else(|| Error::whole(format!("{} is a placement: say of which model with --onto", format.name())))
    };
    let in_one = |parse: &dyn Fn(&str) -> result::Result<Found, Error>| {
        one().and_then(|input| parse(input.text).map_err(|error| error.in_file(input.name)))
    };
    let found = match format {
        Format::Json => in_one(&|text| {
            let model = Model::from_json(text)?;
            Ok(Found {
                id: model.id.clone(),
                objective: Some(model.objective),
                machine: Some(Machine::of(model.clone())),
                program: Some(Program::of(model)),
                ..Found::default()
            })
        })?,
        Format::Csv => in_one(&|text| csv::read(text, base.as_ref()))?,
        Format::Matrix => in_one(&|text| matrix::program(text).map(program))?,
        Format::OpenMpi => openmpi::program(inputs)?,
        Format::Hwloc => in_one(&hwloc::machine)?,
        Format::Metis => in_one(&metis::program)?,
        Format::ScotchGraph => in_one(&scotch::program)?,
        Format::ScotchTarget => in_one(&scotch::machine)?,
        Format::Record => record::read(inputs)?,
        Format::RecordPlacement => {
            let model = base_model(base)?;
            let placement = record::placement(inputs, &model)?;
            return Ok(Imported { result: Result::Placement(model, placement), notes: Vec::new() });
        }
        Format::ScotchMap | Format::MetisPart => {
            let model = base_model(base)?;
            let input = one()?;
            let placement = match format {
                Format::ScotchMap => mapping::scotch(input.text, &model),
                _ => mapping::metis(input.text, &model),
            };
            let placement = placement.map_err(|error| error.in_file(input.name))?;
            return Ok(Imported { result: Result::Placement(model, placement), notes: Vec::new() });
        }
    };
    found.complete(base)
}

impl Found {
    fn complete(mut self, base: Option<Model>) -> result::Result<Imported, Error> {
        let objective = self.objective.or(base.as_ref().map(|base| base.objective)).unwrap_or_default();
        let base_id = base.as_ref().and_then(|base| base.id.clone());
        let (base_machine, base_program) = match base {
            Some(base) => (Some(Machine::of(base.clone())), Some(Program::of(base))),
            None => (None, None),
        };
        let program = self.program.or(base_program).unwrap_or_default();
        let machine = match self.machine.or(base_machine) {
            Some(machine) => machine,
            None => {
                let machine = Machine::assumed(program.processes.len(), &self.ran)?;
                let more = if self.ran.iter().any(|ran| *ran > 1) { " or as many as ran there" } else { "" };
                self.notes.push(format!(
                    "the machine is assumed: {} with one process each{more}, one switch apart, 1 ns per byte and link; \
                     --onto MODEL.json gives another",
                    counted(machine.topology.nodes(), "node", "nodes")
                ));
                machine
            }
        };
        let model = program.on(machine, self.id.or(base_id), objective);
        // What was put together must agree, for example pins of a program with the nodes of another machine.
        let model = Model::from_json(&model.to_json())?;
        Ok(Imported { result: Result::Model(model), notes: self.notes })
    }
}
