//! A shell script that puts processes and segments on the NUMA nodes of a machine, with `numactl`.
//!
//! Processes are told apart by their rank, as launchers set it. Segments are files in a memory file system: `numactl
//! --file` gives each a policy before anybody maps it.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::{Error, Model, Placement};

const HEAD: &str = r#"#!/bin/sh
# Binds processes and segments to NUMA nodes as they were placed.
#   sh THIS segments DIRECTORY            makes the segments as files there (tmpfs or hugetlbfs), each on its node
#   sh THIS run RANK PROGRAM [ARG...]     runs a program as the process of this rank
#   mpirun ... sh THIS rank PROGRAM ...   the same; the launcher tells the rank
set -eu

usage() {
    echo "usage: $0 segments DIRECTORY | run RANK PROGRAM [ARG...] | rank PROGRAM [ARG...]" >&2
    exit 2
}

reach() { # nodes
    command -v numactl >/dev/null || { echo "$0: numactl is not installed (Debian: apt install numactl)" >&2; exit 1; }
    for node; do
        numactl --membind="$node" true >/dev/null 2>&1 || {
            echo "$0: nothing can be bound to NUMA node $node here: 'numactl --hardware' lists the nodes there are" >&2
            exit 1
        }
    done
}

segment() { # directory, file, bytes, nodes
    numactl --length="$3" --file="$1/$2" $4 --touch
}

process() { # node, program, arguments
    node=$1
    shift
    reach "$node"
    exec numactl --cpunodebind="$node" --localalloc -- "$@"
}

[ $# -ge 2 ] || usage
what=$1
shift
case $what in
segments) [ -d "$1" ] || { echo "$0: there is no directory $1" >&2; exit 1; } ;;
run)
    [ $# -ge 2 ] || usage
    rank=$1
    shift
    ;;
rank)
    rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-}}}}
    [ -n "$rank" ] || { echo "$0: no launcher has told the rank: use 'run RANK'" >&2; exit 2; }
    ;;
*) usage ;;
esac

"#;

pub(super) fn script(model: &Model, placement: &Placement) -> Result<String, Error> {
    let mut text = String::from(HEAD);
    let nodes: BTreeSet<_> = placement.segments.iter().flat_map(|home| home.nodes()).collect();
    let nodes: Vec<String> = nodes.into_iter().map(|node| format!(" {node}")).collect();
    let _ = writeln!(text, "if [ \"$what\" = segments ]; then\n    reach{}", nodes.concat());
    for (segment, home) in model.segments.iter().zip(&placement.segments) {
        let [node] = home.nodes() else {
            let message = format!(
                "segment \"{}\" has {} copies: numactl places a file once; make the copies files of their own",
                segment.id,
                home.nodes().len()
            );
            return Err(Error::whole(message));
        };
        if segment.id.contains(['/', '\0']) || matches!(segment.id.as_str(), "" | "." | "..") {
            return Err(Error::whole(format!("segment {:?} cannot be the name of a file: rename it", segment.id)));
        }
        // A file of no bytes has no place.
        let bytes = segment.bytes.max(1);
        let _ = writeln!(text, "    segment \"$1\" {} {bytes} --membind={node}", quoted(&segment.id));
    }
    text.push_str("    exit 0\nfi\n\ncase $rank in\n");
    for (rank, (process, node)) in model.processes.iter().zip(&placement.processes).enumerate() {
        let _ = writeln!(text, "{rank}) process {node} \"$@\" ;; # {}", process.id.replace(char::is_control, " "));
    }
    text.push_str("*) echo \"$0: there is no process of rank $rank\" >&2; exit 2 ;;\nesac\n");
    Ok(text)
}

/// One word for the shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
