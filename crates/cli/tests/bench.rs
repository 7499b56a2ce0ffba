//! `deck bench` as a program sees it. What it measures is the machine's affair; that it measures everything is ours.

use std::process::Command;

use serde_json::Value;

#[test]
fn pingpong_prints_one_json_object_with_every_size_and_nothing_else() {
    let ended = Command::new(env!("CARGO_BIN_EXE_deck")).args(["bench", "pingpong", "--json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && errors.is_empty(), "{}: {errors}", ended.status);

    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&report["benchmark"], &report["version"]), (&"pingpong".into(), &env!("CARGO_PKG_VERSION").into()));
    assert!(report["pinned"].is_boolean() && report["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(report["machine"]["cpu"].is_string() && report["machine"]["kernel"].is_string());

    let sizes = report["sizes"].as_array().unwrap();
    let bytes: Vec<u64> = sizes.iter().map(|row| row["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [0, 8, 62, 64, 1024, 4096, 65_536, 1 << 20, 16 << 20]);
    let mut rounds = 0;
    for times in sizes.iter().flat_map(|row| [&row["untouched"], &row["touched"]]) {
        let [min, median, p99] = ["min_ns", "median_ns", "p99_ns"].map(|name| times[name].as_f64().unwrap());
        assert!(0.0 < min && min <= median && median <= p99, "{times}");
        rounds += times["rounds"].as_u64().unwrap();
    }
    assert_eq!(report["rounds"], rounds);
}
