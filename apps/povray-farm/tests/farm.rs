//! The farm as its users run it, with the real POV-Ray: alone, with several nodes, and with a node that dies. The
//! picture must be that of one whole render, bit for bit, every time.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use deck_testkit::application::{Application, wait_for};
use deck_testkit::{products, set_trap};
use tempfile::tempdir;

/// A scene with an include of its own, textures, shadows, reflections and smooth colours.
const SCENE: &str = include_str!("../scenes/balls.pov");
const BALL: &str = include_str!("../scenes/ball.inc");
/// The same, so slow that nobody is ready before something has happened to a node.
const SLOW: &str = "light_source { <3, 9, -5>, rgb 0.4 area_light <2, 0, 0>, <0, 0, 2>, 9, 9 }";

fn scene(folder: &Path, extra: &str) -> PathBuf {
    fs::write(folder.join("ball.inc"), BALL).unwrap();
    let path = folder.join("balls.pov");
    fs::write(&path, format!("{SCENE}{extra}")).unwrap();
    path
}

fn farm(scene: &Path, options: &str, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_povray-farm"));
    command.arg(scene).args(options.split_whitespace()).arg("--out").arg(out).env_remove("DECK_JOB");
    command
}

fn pixels(path: &Path) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(BufReader::new(File::open(path).unwrap())).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((frame.color_type, frame.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    (frame.width, frame.height, pixels)
}

/// The pixels that the farm makes of a scene, with its scratch in the scene's folder too, and without a word.
fn farmed(scene: &Path, options: &str) -> (u32, u32, Vec<u8>) {
    let out = scene.with_file_name("farm.png");
    let output = farm(scene, options, &out).env("TMPDIR", scene.parent().unwrap()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{scene:?} {options}: {stderr}");
    pixels(&out)
}

/// One render of the whole scene by one thread of POV-Ray itself: with several, two of its renders may differ.
fn whole(scene: &Path, (width, height): (u32, u32), antialias: &[&str]) -> Vec<u8> {
    // In the scene's folder, whose name may have blanks, at which POV-Ray would cut it.
    let folder = scene.parent().unwrap();
    let name = scene.file_name().unwrap().to_str().unwrap();
    let mut command = Command::new("povray");
    command.current_dir(folder).args([&format!("+I{name}"), "+Owhole.png", "+L."]);
    command.args([format!("+W{width}"), format!("+H{height}")]);
    let output = command.args(["+FN8", "-D", "-J", "+WT1"]).args(antialias).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    pixels(&folder.join("whole.png")).2
}

fn job(name: &str, scene: &Path, options: &str) -> (Application, PathBuf) {
    let out = scene.parent().unwrap().join(format!("{name}.png"));
    let (scene, options, file) = (scene.to_owned(), options.to_owned(), out.clone());
    (Application::new(&format!("povray-farm-{name}"), move || farm(&scene, &options, &file)), out)
}

#[test]
fn a_budget_that_is_too_small_to_tell_workers_what_to_do_ends_the_job() {
    let folder = tempdir().unwrap();
    let mut limited = Command::new("timeout");
    limited
        .args(["60", env!("CARGO_BIN_EXE_povray-farm")])
        .arg(scene(folder.path(), ""))
        .args(["--size", "8x8", "--out"]);
    let ended =
        limited.arg(folder.path().join("farm.png")).env_remove("DECK_JOB").env("DECK_BUDGET", "1").output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && told.contains("raise DECK_BUDGET"), "{}: {told}", ended.status);
}

#[test]
fn the_picture_is_that_of_one_whole_render() {
    let folder = tempdir().unwrap();
    let scene = scene(folder.path(), "");
    let at_one = ["Antialias=On", "Antialias_Threshold=1", "+AM2"];
    for (antialias, options) in [(&["-A"][..], ""), (&["+A0.2", "+AM2"], "--antialias 0.2"), (&at_one, "--antialias 1")]
    {
        let expected = whole(&scene, (97, 141), antialias);
        for rest in ["--slices 1 --threads 1", "--slices 3 --threads 3", "--slices 99 --threads 2"] {
            let made = farmed(&scene, &format!("--size 97x141 {options} {rest}"));
            assert!(made == (97, 141, expected.clone()), "{options} {rest}");
        }
    }
}

#[test]
fn includes_in_the_current_folder_are_found_and_the_settings_of_the_user_for_whole_pictures_change_nothing() {
    let folder = tempdir().unwrap();
    let expected = whole(&scene(folder.path(), ""), (97, 141), &["-A"]);
    let (elsewhere, here) = (folder.path().join("elsewhere"), folder.path().join("here"));
    [&elsewhere, &here].iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let settings = folder.path().join("settings.ini");
    fs::write(&settings, "Dither=On\nBits_Per_Color=16\nGrayscale_Output=On\nFinal_Frame=4\n").unwrap();
    let out = here.join("farm.png");
    let scene = scene(&elsewhere, "");
    fs::rename(elsewhere.join("ball.inc"), here.join("ball.inc")).unwrap();
    let mut command = farm(&scene, "--size 97x141 --slices 3 --threads 2", &out);
    let output = command.current_dir(&here).env("POVINI", &settings).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(pixels(&out) == (97, 141, expected));
}

#[test]
fn a_path_may_have_signs_that_mean_something_to_povray() {
    let plain = tempdir().unwrap();
    let expected = whole(&scene(plain.path(), ""), (97, 141), &["-A"]);
    for name in ["a b=c[1]#", "it's; so", "\"so\" +W3", "back\\"] {
        let folder = plain.path().join(name);
        fs::create_dir(&folder).unwrap();
        let made = farmed(&scene(&folder, ""), "--size 97x141 --slices 3 --threads 2");
        assert!(made == (97, 141, expected.clone()), "{name}");
    }
}

#[test]
fn the_folder_for_temporary_files_may_have_any_name() {
    let folder = tempdir().unwrap();
    let temporary = folder.path().join("it's \"über\"");
    fs::create_dir(&temporary).unwrap();
    let out = folder.path().join("farm.png");
    let output = farm(&scene(folder.path(), ""), "--size 8x8", &out).env("TMPDIR", &temporary).output().unwrap();
    assert!(output.status.success() && out.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn finished_lines_come_while_their_slice_is_being_rendered() {
    let folder = tempdir().unwrap();
    let (mut job, out) = job("lines", &scene(folder.path(), SLOW), "--size 160x120 --slices 1 --threads 1");
    let address = job.start_master(&[]);
    // Of one slice, so nothing is done yet.
    let page = wait_for(&address, |page| !page.strips.is_empty());
    assert_eq!((&page.head["done"], page.strips[0][0]), (&0.into(), 0));
    assert!(page.strips[0][1] < 120, "{:?}", page.strips);
    assert_eq!(job.end_of(0).0, Some(0));
    assert!(out.exists());
}

#[test]
fn a_node_that_is_killed_costs_its_slice_and_its_povray_dies_with_it() {
    let folder = tempdir().unwrap();
    let scene = scene(folder.path(), SLOW);
    let expected = whole(&scene, (120, 320), &["-A"]);
    let (mut job, out) = job("killed", &scene, "--size 120x320 --slices 10 --threads 1");
    let address = job.start_master(&[]);
    job.start(&[]);
    wait_for(&address, |page| page.strips.iter().any(|strip| strip[2] == 1));
    let scratch = format!("povray-farm-{}-", job.nodes[1].id());
    job.nodes[1].kill().unwrap();
    let (status, report, notices) = job.end_of(0);
    assert_eq!(status, Some(0), "{notices}");
    assert!(report.contains("balls.pov, 120x320, 10 slices, 2 nodes x 1 thread: "), "{report}");
    assert!(report.contains(" (lost)") && notices.contains("node 1 was lost; "), "{report}{notices}");
    assert!(pixels(&out) == (120, 320, expected));
    let orphans = fs::read_dir("/proc").unwrap().flatten().filter(|process| {
        let folder = fs::read_link(process.path().join("cwd")).unwrap_or_default();
        folder.to_string_lossy().contains(&scratch)
    });
    assert_eq!(orphans.count(), 0, "POV-Ray of the dead node");
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_may_die_in_the_middle_of_telling_lines() {
    let folder = tempdir().unwrap();
    let scene = scene(folder.path(), "");
    let expected = whole(&scene, (64, 512), &["-A"]);
    let dies_at = |point: &str| {
        let name = format!("povray-farm-{}", point.replace(['/', ':'], "-"));
        let out = folder.path().join(format!("{name}.png"));
        let (path, file, trap) = (scene.clone(), out.clone(), point.to_owned());
        let nth = std::cell::Cell::new(0);
        let mut job = Application::new(&name, move || {
            let mut command = farm(&path, "--size 64x512 --slices 16 --threads 1", &file);
            if nth.replace(nth.get() + 1) == 1 {
                set_trap(&mut command, &trap);
            }
            command
        });
        job.start_master(&[]);
        job.start(&[]);
        assert_eq!(job.end_of(1).0, None, "{point}: it is killed");
        let (status, _, notices) = job.end_of(0);
        assert_eq!(status, Some(0), "{point}: {notices}");
        assert!(pixels(&out) == (64, 512, expected.clone()), "{point}");
    };
    // POV-Ray sleeps most of the time that it takes for so little, so the jobs do not wait for each other.
    std::thread::scope(|scope| {
        for point in ["post/reserved:3", "post/published:3", "retrieve/held:2"] {
            scope.spawn(move || dies_at(point));
        }
    });
}

fn write_script(path: &Path, lines: &str) {
    let text = path.with_extension("text");
    fs::write(&text, format!("#!/bin/sh\n{lines}\n")).unwrap();
    products::install(&text, path);
}

/// A folder with a `povray` that notes its start in the file `started`, and goes on once somebody writes to the pipe
/// `gate`; as [`povray_that`].
fn povray_behind_a_gate(folder: &Path) -> OsString {
    let [gate, started] = ["gate", "started"].map(|name| folder.join(name).display().to_string());
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    povray_that(folder, &format!("echo >> '{started}'; : < '{gate}'; exec \"$povray\" \"$@\""))
}

/// A folder with a `povray` that does the `work` as a shell does, instead of a slice. `PATH` with that folder first.
fn povray_that(folder: &Path, work: &str) -> OsString {
    let path = std::env::var_os("PATH").unwrap();
    let povray = std::env::split_paths(&path).map(|place| place.join("povray")).find(|file| file.exists()).unwrap();
    let lines = format!("povray='{}'\n[ \"$1\" = --version ] && exit\n{work}", povray.display());
    write_script(&folder.join("povray"), &lines);
    std::env::join_paths(std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path))).unwrap()
}

#[test]
fn a_slice_is_ready_when_its_picture_is() {
    let folder = tempdir().unwrap();
    let (scene, out) = (scene(folder.path(), ""), folder.path().join("ready.png"));
    // It says how it ended when nobody waits for that any more.
    let path = povray_that(folder.path(), "\"$povray\" \"$@\"; exit 3");
    let output = farm(&scene, "--size 97x141 --slices 3 --threads 2", &out).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(pixels(&out) == (97, 141, whole(&scene, (97, 141), &["-A"])));
}

#[test]
fn that_povray_was_killed_or_has_no_folder_is_said_once() {
    let folder = tempdir().unwrap();
    let (scene, out) = (scene(folder.path(), ""), folder.path().join("once.png"));
    let path = povray_that(folder.path(), "kill -KILL $$");
    let killed = farm(&scene, "--size 8x8 --threads 1", &out).env("PATH", path).output().unwrap();
    let error = String::from_utf8_lossy(&killed.stderr);
    assert_eq!((killed.status.code(), error.matches("povray was killed").count()), (Some(1), 1), "{error}");
    assert!(error.contains("no computing thread is left"), "{error}");
    let missing =
        farm(&scene, "--size 8x64 --threads 2", &out).env("TMPDIR", folder.path().join("none")).output().unwrap();
    let error = String::from_utf8_lossy(&missing.stderr);
    assert_eq!((missing.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("/none: system error: No such file") && error.contains("TMPDIR"), "{error}");
}

#[test]
fn a_scene_that_does_not_parse_is_answered_by_what_povray_says_once() {
    let folder = tempdir().unwrap();
    let path = povray_behind_a_gate(folder.path());
    let (scene, out) = (scene(folder.path(), "sphere { <0, 0, 0> }"), folder.path().join("parse.png"));
    let file = out.clone();
    let mut job = Application::new("povray-farm-parse", move || {
        let mut command = farm(&scene, "--size 64x512 --slices 16 --threads 1", &file);
        command.env("PATH", &path);
        command
    });
    job.start_master(&[]);
    (0..2).for_each(|_| job.start(&[]));
    // All three nodes are to find the mistake.
    while fs::read_to_string(folder.path().join("started")).unwrap_or_default().lines().count() < 3 {
        std::thread::yield_now();
    }
    let _open = File::options().write(true).open(folder.path().join("gate")).unwrap();
    let (status, report, mut error) = job.end_of(0);
    assert_eq!((status, report.as_str()), (Some(1), ""));
    for node in [1, 2] {
        let (status, _, notices) = job.end_of(node);
        assert_eq!(status, Some(0), "{notices}");
        error += &notices;
    }
    assert_eq!(error.matches("Parse Error: Expected 'numeric expression'").count(), 1, "{error}");
    assert!(error.contains("balls.pov' line 13") && !error.contains("Persistence of Vision"), "{error}");
    assert!(error.contains("Cannot parse input: invalid argument; correct the scene"), "{error}");
    assert!(!out.exists());
}

#[test]
fn without_what_it_needs_or_a_scene_the_error_says_what_to_do() {
    let folder = tempdir().unwrap();
    let scene = scene(folder.path(), "");
    let out = folder.path().join("without.png");
    let without = farm(&scene, "--size 8x8", &out).env("PATH", folder.path()).output().unwrap();
    let error = String::from_utf8_lossy(&without.stderr);
    assert_eq!(without.status.code(), Some(1), "{error}");
    assert!(error.contains("apt-get install povray"), "{error}");
    // As the loader does it.
    let script = folder.path().join("povray");
    write_script(&script, "echo 'povray: error while loading shared libraries: libX.so.0' >&2\nexit 127");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let unloaded = farm(&scene, "--size 8x8 --threads 2", &out).env("PATH", path).output().unwrap();
    let error = String::from_utf8_lossy(&unloaded.stderr);
    assert_eq!((unloaded.status.code(), error.matches("libX.so.0").count()), (Some(1), 1), "{error}");
    // POV-Ray alone, and beside it a `setpriv` that knows less than the farm needs.
    write_script(&script, "exit 0");
    for (setpriv, words) in
        [(None, "setpriv does not start: No such file"), (Some("echo 'no --pdeathsig' >&2\nexit 1"), "no --pdeathsig")]
    {
        if let Some(lines) = setpriv {
            write_script(&folder.path().join("setpriv"), lines);
        }
        let untied = farm(&scene, "--size 8x8 --threads 2", &out).env("PATH", folder.path()).output().unwrap();
        let error = String::from_utf8_lossy(&untied.stderr);
        assert_eq!((untied.status.code(), error.lines().count()), (Some(1), 1), "{error}");
        assert!(error.contains(words) && error.contains("apt-get install util-linux"), "{error}");
    }
    let misspelt = farm(&scene, "--size 8x8 --library /no/such/folder", &out).output().unwrap();
    let error = String::from_utf8_lossy(&misspelt.stderr);
    assert!(misspelt.status.code() == Some(1) && error.contains("/no/such/folder"), "{error}");
    let nothing = farm(&folder.path().join("none.pov"), "--size 8x8", &out).output().unwrap();
    let error = String::from_utf8_lossy(&nothing.stderr);
    assert!(nothing.status.code() == Some(1) && error.contains("none.pov"), "{error}");
}

/// `DECK_BLESS=1` paints it anew.
#[test]
fn the_picture_of_the_documentation_is_what_the_farm_makes() {
    let folder = tempdir().unwrap();
    let shown = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/applications/povray-farm.png");
    let out = folder.path().join("balls.png");
    let output = farm(&scene(folder.path(), ""), "--size 480x320 --antialias 0.2 --slices 10", &out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    if std::env::var_os("DECK_BLESS").is_some() {
        fs::create_dir_all(shown.parent().unwrap()).unwrap();
        fs::copy(&out, &shown).unwrap();
    }
    // Versions of POV-Ray differ in the last bits.
    let ((width, height, made), (_, _, shown)) = (pixels(&out), pixels(&shown));
    let difference: u64 = made.iter().zip(&shown).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    assert_eq!((width, height, made.len()), (480, 320, shown.len()));
    assert!(difference / (made.len() as u64) < 4, "{difference}");
}

#[test]
fn the_readme_shows_what_is_printed() {
    let folder = tempdir().unwrap();
    let readme = include_str!("../README.md");
    let (_, shown) = readme.split_once("$ povray-farm balls.pov --threads 2\n").unwrap();
    let shown: Vec<_> = shown.lines().take_while(|line| *line != "```").map(without_time).collect();
    let output = farm(&scene(folder.path(), ""), "--threads 2", &folder.path().join("balls.png")).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().map(without_time).collect::<Vec<_>>(), shown);
}

/// A line without the time that it tells.
fn without_time(line: &str) -> String {
    match line.split_once(": ").and_then(|(before, after)| Some((before, after.split_once(" s, ")?.1))) {
        Some((before, after)) => format!("{before}: _ s, {after}"),
        None => line.to_owned(),
    }
}
