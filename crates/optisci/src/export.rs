//! Placements and models for other tools.

mod csv;
mod graph;
mod launch;
mod numactl;

use crate::{Error, Model, Placement};

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The placement, ids in the model's order.
    Json,
    /// Tables of processes and segments with their nodes, and matrices of accesses.
    Csv,
    /// A rankfile of Open MPI and PRRTE.
    Rankfile,
    /// A host file of SLURM for `--distribution=arbitrary`.
    Slurm,
    /// A shell script that binds processes and segments with `numactl`.
    Numactl,
    /// A graph of METIS.
    Metis,
    /// A graph of Scotch.
    ScotchGraph,
    /// The machine as a target architecture of Scotch.
    ScotchTarget,
    /// The placement as a mapping of Scotch.
    ScotchMap,
    /// The placement as a partition of METIS.
    MetisPart,
}

/// What the formats are, for the help of a command.
pub const HELP: &str = "\
Formats:
  json           the placement, ids in the model's order
  csv            tables of processes and segments with their nodes, and matrices
                 of accesses
  rankfile       for mpirun --map-by rankfile:file=FILE (Open MPI 5, PRRTE) or
                 --rankfile FILE (Open MPI 4)
  slurm          for SLURM_HOSTFILE=FILE srun --distribution=arbitrary
  numactl        a shell script that binds processes and segments to NUMA nodes
  metis          a graph of METIS: processes, then segments
  scotch-graph   a graph of Scotch (.grf): processes, then segments
  scotch-target  the machine as an architecture of Scotch (.tgt)
  scotch-map     the placement as a mapping of Scotch (.map)
  metis-part     the placement as a partition of METIS (.part.N)

Example:
  deck place export rankfile model.json best.json --hosts n01,n02 -o ranks
  mpirun --map-by rankfile:file=ranks PROGRAM";

impl Format {
    /// All of them.
    pub const ALL: [Format; 10] = [
        Format::Json,
        Format::Csv,
        Format::Rankfile,
        Format::Slurm,
        Format::Numactl,
        Format::Metis,
        Format::ScotchGraph,
        Format::ScotchTarget,
        Format::ScotchMap,
        Format::MetisPart,
    ];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Rankfile => "rankfile",
            Format::Slurm => "slurm",
            Format::Numactl => "numactl",
            Format::Metis => "metis",
            Format::ScotchGraph => "scotch-graph",
            Format::ScotchTarget => "scotch-target",
            Format::ScotchMap => "scotch-map",
            Format::MetisPart => "metis-part",
        }
    }

    /// The format that users call `name`, or whose files usually end so.
    pub fn of(name: &str) -> Option<Format> {
        let by_ending = || match name {
            "graph" => Some(Format::Metis),
            "grf" => Some(Format::ScotchGraph),
            "tgt" => Some(Format::ScotchTarget),
            "map" => Some(Format::ScotchMap),
            "part" => Some(Format::MetisPart),
            "hostfile" => Some(Format::Slurm),
            _ => None,
        };
        Format::ALL.into_iter().find(|format| format.name() == name).or_else(by_ending)
    }
}

/// Writes a model and its placement. `hosts` are the names of the nodes, in their order; none: node0, node1 and so on.
///
/// # Errors
/// When the format cannot express the placement, or there are not as many hosts as nodes.
pub fn write(format: Format, model: &Model, placement: &Placement, hosts: &[String]) -> Result<String, Error> {
    match format {
        Format::Json => Ok(placement.to_json(model)),
        Format::Csv => csv::tables(model, placement),
        Format::Rankfile => launch::rankfile(placement, &launch::Hosts::new(model, hosts)?),
        Format::Slurm => launch::host_file(placement, &launch::Hosts::new(model, hosts)?),
        Format::Numactl => numactl::script(model, placement),
        Format::Metis => Ok(graph::metis(model)),
        Format::ScotchGraph => Ok(graph::scotch(model)),
        Format::ScotchTarget => Ok(graph::target(model)),
        Format::ScotchMap => graph::scotch_map(model, placement),
        Format::MetisPart => graph::metis_part(model, placement),
    }
}
