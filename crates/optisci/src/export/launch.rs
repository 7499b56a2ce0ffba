//! Which rank runs where, for launchers: processes in the model's order are ranks, nodes are hosts.

use std::collections::HashMap;
use std::fmt::Write;

use crate::counted::counted;
use crate::topology::Node;
use crate::{Error, Model, Placement};

/// The names of the nodes.
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    pub fn new(model: &Model, names: &[String]) -> Result<Hosts, Error> {
        let nodes = model.nodes();
        if names.is_empty() {
            return Ok(Hosts((0..nodes).map(|node| format!("node{node}")).collect()));
        }
        if names.len() != nodes {
            let named = counted(names.len(), "host was named", "hosts were named");
            let message = format!("{named} for a machine of {}: name one for each", counted(nodes, "node", "nodes"));
            return Err(Error::whole(message));
        }
        let is_name = |name: &String| !name.is_empty() && !name.contains([' ', '\t', '\n', '\r', '=', '#', ',']);
        match names.iter().find(|name| !is_name(name)) {
            Some(name) => Err(Error::whole(format!("{name:?} is no name of a host"))),
            None => Ok(Hosts(names.to_vec())),
        }
    }

    fn of(&self, node: Node) -> &str {
        &self.0[node as usize]
    }
}

/// `rank 0=host slot=0`: the processes of a host take its slots in their order; several nodes may be one host. Read by
/// Open MPI (`--rankfile` up to 4, `--map-by rankfile:file=` since 5) and PRRTE.
pub(super) fn rankfile(placement: &Placement, hosts: &Hosts) -> Result<String, Error> {
    let mut used = HashMap::new();
    let mut text = String::new();
    for (rank, &node) in placement.processes.iter().enumerate() {
        let slot: &mut usize = used.entry(hosts.of(node)).or_default();
        let _ = writeln!(text, "rank {rank}={} slot={slot}", hosts.of(node));
        *slot += 1;
    }
    Ok(text)
}

/// The host of each task, one per line: `SLURM_HOSTFILE` with `--distribution=arbitrary`.
pub(super) fn host_file(placement: &Placement, hosts: &Hosts) -> Result<String, Error> {
    Ok(placement.processes.iter().map(|&node| format!("{}\n", hosts.of(node))).collect())
}
