//! `deck place table1`: the paper's table and ours, and what may be concluded from them.

use std::fmt::Write;

use optisci::table1;

const NOTES: &str = "\
Model:     the printed formulas; local accesses cost one memory access; 2048 bytes each.
Mappings:  the paper draws them and does not list them; ours differ in how many of a writer's 600 tasks lie in a
           queue on a writer's node. With all queues at writers (a), half of the tasks (b) and one sixth (c) the
           percentages agree with the simulator's after rounding; (500, 200, 0) fits as well.
Claim:     the percentages, nothing more. In ms no reading of the printed formulas that was tried (92,160) gives
           424, 392 and 365; a free scale fits them no better than random numbers. Measured times fall further
           than any placement can in this model, which knows neither contention nor software.
";

/// Prints the table.
pub fn run(json: bool) -> Result<(), String> {
    let table = table1::table();
    if json {
        let text = serde_json::to_string(&table).expect("a table is plain numbers and text");
        return super::print(&(text + "\n"));
    }
    let mut text = String::from(
        "                          this model                paper, simulated   paper, measured\n\
         mapping  tasks at writers      ms       %  scaled          value    %       ms    %\n",
    );
    for row in &table.rows {
        let _ = writeln!(
            text,
            "{:<8} {:>16} {:>8.3} {:>6.1}% {:>7.1} {:>14} {:>3.0}% {:>8} {:>3.0}%",
            row.mapping,
            row.tasks_at_writers,
            row.total_ms,
            row.percent,
            row.scaled,
            row.paper_simulated,
            row.paper_simulated_percent,
            row.paper_measured_ms,
            row.paper_measured_percent,
        );
    }
    let _ = writeln!(
        text,
        "\nOf {} placements of the queues the best costs {:.3} ms ({:.1} %), the worst {:.3} ms; `deck place solve` proves the best.\n",
        table.placements,
        table.best_ms,
        100.0 * table.best_ms / table.worst_ms,
        table.worst_ms
    );
    super::print(&(text + NOTES))
}
