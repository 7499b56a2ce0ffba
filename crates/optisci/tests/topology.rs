//! Distances and routes against a breadth-first walk over the links themselves.

use std::collections::{HashMap, VecDeque};

use optisci::topology::{End, FatTree, Topology, Torus};
use proptest::prelude::*;

fn topologies() -> impl Strategy<Value = Topology> {
    let sizes = prop::collection::vec(1u32..6, 1..4);
    prop_oneof![
        (sizes.clone(), any::<bool>()).prop_map(|(dims, directed)| Topology::Torus(Torus { dims, directed })),
        sizes.prop_map(|radices| Topology::FatTree(FatTree { radices })),
    ]
}

/// Links from `start` to every end, by the fewest links.
fn walk(topology: &Topology, start: u32) -> HashMap<End, u32> {
    let mut next: HashMap<End, Vec<End>> = HashMap::new();
    for number in 0..topology.links() {
        let link = topology.link(number);
        next.entry(link.from).or_default().push(link.to);
    }
    let mut distances = HashMap::from([(End::Node(start), 0)]);
    let mut queue = VecDeque::from([End::Node(start)]);
    while let Some(end) = queue.pop_front() {
        for &to in next.get(&end).into_iter().flatten() {
            if !distances.contains_key(&to) {
                distances.insert(to, distances[&end] + 1);
                queue.push_back(to);
            }
        }
    }
    distances
}

proptest! {
    #[test]
    fn hops_are_the_fewest_links(topology in topologies()) {
        let nodes = topology.nodes() as u32;
        for a in 0..nodes {
            let distances = walk(&topology, a);
            for b in 0..nodes {
                prop_assert_eq!(topology.hops(a, b), distances[&End::Node(b)], "from {} to {}", a, b);
            }
        }
    }

    #[test]
    fn a_route_leads_from_link_to_link_to_its_end(topology in topologies(), a in any::<u32>(), b in any::<u32>()) {
        let nodes = topology.nodes() as u32;
        let (a, b) = (a % nodes, b % nodes);
        let (mut here, mut count) = (End::Node(a), 0);
        topology.route(a, b, |number| {
            let link = topology.link(number);
            assert_eq!(link.from, here);
            (here, count) = (link.to, count + 1);
        });
        prop_assert_eq!(here, End::Node(b));
        prop_assert_eq!(count, topology.hops(a, b));
    }
}

fn stations(topology: &Topology, a: u32, b: u32) -> Vec<String> {
    let mut stations = vec![End::Node(a).to_string()];
    topology.route(a, b, |number| stations.push(topology.link(number).to.to_string()));
    stations
}

#[test]
fn packets_travel_the_first_dimension_first() {
    let torus = Topology::Torus(Torus { dims: vec![4, 4], directed: true });
    // From (1, 1) to (3, 2): along the row 1, then along the column 3.
    assert_eq!(stations(&torus, 5, 11), ["5", "6", "7", "11"]);
}

#[test]
fn a_tie_goes_in_the_positive_direction() {
    let ring = Topology::Torus(Torus { dims: vec![4], directed: false });
    assert_eq!(stations(&ring, 3, 1), ["3", "0", "1"]);
    assert_eq!(stations(&ring, 0, 3), ["0", "3"]);
    let pair = Topology::Torus(Torus { dims: vec![2], directed: false });
    assert_eq!(
        (stations(&pair, 0, 1), stations(&pair, 1, 0)),
        (vec!["0".into(), "1".into()], vec!["1".into(), "0".into()])
    );
}

#[test]
fn a_packet_climbs_a_tree_no_higher_than_it_must() {
    let tree = Topology::FatTree(FatTree { radices: vec![2, 3] });
    assert_eq!(stations(&tree, 2, 3), ["2", "switch 1.1", "3"]);
    assert_eq!(stations(&tree, 0, 5), ["0", "switch 1.0", "switch 2.0", "switch 1.2", "5"]);
    assert_eq!((tree.hops(2, 3), tree.hops(0, 5), tree.hops(4, 4)), (2, 4, 0));
}
