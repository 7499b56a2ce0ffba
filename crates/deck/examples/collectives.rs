//! Three threads share out the numbers 1 to 12, and find mean and variance together; then one waits in vain.
use std::sync::{Arc, Barrier};
use std::time::Duration;

use deck::{Group, Node, Operation, Thread};

const PATIENCE: Duration = Duration::from_secs(10);
const MEMBERS: u32 = 3;

fn member(node: &Node, index: u32, all_done: &Barrier) -> deck::Result<()> {
    let mut group = Group::join(node, "statistics", MEMBERS, Some(index), PATIENCE)?;

    // Member 0 has the numbers; everybody gets a part.
    let numbers: Vec<f64> = if index == 0 { (1..=12).map(f64::from).collect() } else { Vec::new() };
    let mut part = [0.0; 4];
    group.scatter(0, &numbers, &mut part, PATIENCE)?;

    let mut sum = [0.0];
    group.allreduce(&[part.iter().sum::<f64>()], &mut sum, Operation::Sum, PATIENCE)?;
    let mean = sum[0] / 12.0;

    // Started now and waited for later: the member does other things meanwhile.
    let own_squares: f64 = part.iter().map(|x| (x - mean).powi(2)).sum();
    let mut squares = group.start_allreduce(&[own_squares], Operation::Sum)?;
    let largest = part.iter().copied().fold(f64::MIN, f64::max);
    let variance = squares.wait(&mut group, PATIENCE)?[0] / 12.0;

    let mut largest_of_each = [0.0; MEMBERS as usize];
    group.gather(0, &[largest], &mut largest_of_each, PATIENCE)?;
    if index == 0 {
        println!("mean {mean}, variance {variance:.3}, largest of each part {largest_of_each:?}");
        // Nobody else comes to this barrier.
        if let Err(error) = group.barrier(Duration::from_millis(50)) {
            println!("{error}");
        }
    }
    all_done.wait();
    Ok(())
}

fn main() -> deck::Result<()> {
    let node = Node::join()?;
    let all_done = Arc::new(Barrier::new(MEMBERS as usize));
    let threads: Vec<_> = (0..MEMBERS)
        .map(|index| {
            let (node, all_done) = (node.clone(), all_done.clone());
            Thread::spawn(move || member(&node, index, &all_done))
        })
        .collect::<deck::Result<_>>()?;
    for thread in threads {
        thread.join().expect("no member panics")?;
    }
    node.leave()
}
