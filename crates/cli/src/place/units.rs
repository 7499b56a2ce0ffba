//! Numbers for people: times and bytes with a unit that leaves few digits before the point.

/// A time in ns, as `412.485 ms`.
pub fn time(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    match units.into_iter().find(|(size, _)| ns.abs() >= *size) {
        Some((size, unit)) => format!("{:.3} {unit}", ns / size),
        None => format!("{ns:.1} ns"),
    }
}

/// A number of bytes, as `1.2 MiB`.
pub fn bytes(bytes: f64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >= (1u64 << shift) as f64) {
        Some((shift, unit)) => format!("{:.1} {unit}", bytes / (1u64 << shift) as f64),
        None => format!("{bytes} {}", if bytes == 1.0 { "byte" } else { "bytes" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_fits() {
        assert_eq!(
            [time(0.0), time(33.0), time(171_810.91), time(4.124_85e8)],
            ["0.0 ns", "33.0 ns", "171.811 us", "412.485 ms"]
        );
        let told = [bytes(0.0), bytes(1.0), bytes(2048.0), bytes(1.5e9)];
        assert_eq!(told, ["0 bytes", "1 byte", "2.0 KiB", "1.4 GiB"]);
    }
}
