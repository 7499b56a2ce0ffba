//! Compiles C and C++ programs against `deck.h` and the library of this build, and runs them.
//!
//! Compilers are `cc` and `c++`, or what `CC` and `CXX` name.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use deck_testkit::chance::{Chance, SEED_VARIABLE};
use deck_testkit::products::{self, alone, succeed};
use deck_testkit::{see, storm};

#[derive(Clone, Copy)]
enum Language {
    C11,
    Cxx17,
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with `libdeck.so` and `libdeck.a`.
fn library_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| products::build(&[&["-p", "deck-c"]]))
}

fn compiler(language: Language) -> Command {
    let mut command = match language {
        Language::C11 => products::compiler("CC", "cc"),
        Language::Cxx17 => products::compiler("CXX", "c++"),
    };
    match language {
        Language::C11 => command.args(["-x", "c", "-std=c11"]),
        Language::Cxx17 => command.args(["-x", "c++", "-std=c++17"]),
    };
    command.arg("-I").arg(package().join("include"));
    command
}

/// Links `source` with libdeck.so (`-ldeck`) or libdeck.a, and gives the program's path.
fn compile(source: &str, language: Language, how: &str) -> PathBuf {
    let libraries = library_folder();
    let name = Path::new(source).file_stem().and_then(|stem| stem.to_str()).expect("sources have plain names");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{how}"));
    let mut command = compiler(language);
    command.arg(package().join(source)).arg("-x").arg("none").arg("-o").arg(&program);
    if how == "static" {
        command.arg(libraries.join("libdeck.a")).args(["-lpthread", "-ldl", "-lm"]);
    } else {
        products::link(&mut command, libraries);
    }
    succeed(&mut command);
    program
}

/// Links nothing: the program loads the library itself.
fn compile_without(source: &str) -> PathBuf {
    let name = Path::new(source).file_stem().expect("sources have names");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    succeed(compiler(Language::C11).arg(package().join(source)).arg("-o").arg(&program).args(["-lpthread", "-ldl"]));
    program
}

/// A shared object that has libdeck.a inside, made of tests/plugin.c.
fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        let plugin = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin.so");
        let mut command = compiler(Language::C11);
        command.args(["-DPLUGIN", "-shared", "-fPIC"]).arg(package().join("tests/plugin.c"));
        command.args(["-x", "none", "-o"]).arg(&plugin).arg(library_folder().join("libdeck.a"));
        succeed(command.args(["-lpthread", "-ldl", "-lm"]));
        plugin
    })
}

/// Compiles and runs a job of one node.
fn run(source: &str) {
    succeed(&mut alone(&compile(source, Language::C11, "run")));
}

/// Starts a node of the job `job`, whose output is kept.
fn start(program: &Path, job: &str, arguments: &[&str]) -> Child {
    let mut node = alone(program);
    node.args(arguments).env("DECK_JOB", format!("deck-c-{job}-{}", std::process::id()));
    node.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// The text of a page of the guide.
fn guide(page: &str) -> String {
    let root = package().ancestors().nth(2).expect("the package is in crates/c");
    std::fs::read_to_string(root.join(format!("docs/guide/{page}.md"))).expect("the guide is there")
}

/// The first block of a page that begins with this fence.
fn block<'a>(page: &'a str, fence: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n```{fence}\n")).expect("the guide has such a block");
    rest.split_once("```\n").expect("the block ends").0
}

/// Tells `story`, one of tests/nodes.c, to two nodes.
fn tell(story: &str) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| compile("tests/nodes.c", Language::C11, "run"));
    let job = format!("deck-c-{story}-{}", std::process::id());
    succeed(alone(program).arg(story).env("DECK_JOB", job));
}

#[test]
fn the_header_stands_alone_and_keeps_its_numbers_in_c_and_cxx() {
    for language in [Language::C11, Language::Cxx17] {
        succeed(
            compiler(language)
                .args(["-Wconversion", "-Wshadow", "-fsyntax-only"])
                .arg(package().join("tests/header.c")),
        );
    }
}

#[test]
fn every_call_has_the_documented_signature_in_c_and_cxx() {
    for (language, how) in [(Language::C11, "c"), (Language::Cxx17, "cxx")] {
        let program = compile("tests/signatures.c", language, how);
        assert_eq!(succeed(&mut Command::new(program)).stdout, b"96 calls\n");
    }
}

#[test]
fn programs_ask_for_the_library_by_its_versioned_name() {
    let program = compile("tests/signatures.c", Language::C11, "soname");
    let content = std::fs::read(program).expect("it was just compiled");
    assert!(content.windows(13).any(|bytes| bytes == b"libdeck.so.0\0"));
}

#[test]
fn the_static_library_links_with_what_deck_pc_says() {
    let package_config = std::fs::read_to_string(package().join("deck.pc.in")).expect("the package has a deck.pc.in");
    assert!(package_config.contains("Libs.private: -lpthread -ldl -lm"));
    let program = compile("tests/signatures.c", Language::C11, "static");
    succeed(&mut Command::new(program));
}

#[test]
fn a_library_that_is_loaded_late_finds_what_is_each_threads_own() {
    let program = compile_without("tests/late.c");
    // Without room beside what all threads have from the beginning: the library's calls find it the long way.
    let mut job = alone(&program);
    job.arg(library_folder().join("libdeck.so")).env("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=0");
    succeed(&mut job);
}

#[test]
fn a_plugin_with_the_library_inside_can_be_unloaded() {
    let program = compile_without("tests/plugin.c");
    succeed(alone(&program).arg(plugin()));
    succeed(alone(&program).arg(library_folder().join("libdeck.so")));
}

#[test]
fn two_copies_of_the_library_in_a_process_take_its_place_in_turn() {
    let program = compile("tests/two_copies.c", Language::C11, "run");
    succeed(alone(see::deck()).args(["run", "-n", "1", "--"]).arg(&program).arg(plugin()));
    succeed(alone(&program).arg(plugin()).env("DECK_JOB", format!("deck-c-copies-{}", std::process::id())));
}

#[test]
fn the_example_compiles() {
    compile("../../examples/hello/hello.c", Language::C11, "example");
}

#[test]
fn bad_input_gives_a_code_from_every_call() {
    run("tests/bad_input.c");
    expect_every_call_in("tests/bad_input.c");
}

#[test]
fn calls_in_any_order_end_with_a_code_whatever_other_threads_and_nodes_do() {
    const TEST: &str = "calls_in_any_order_end_with_a_code_whatever_other_threads_and_nodes_do";
    expect_every_call_in("tests/any_calls.c");
    let program = compile("tests/any_calls.c", Language::C11, "run");
    let first = Chance::seed();
    storm::each(storm::rounds(1), "seeds", |round| {
        let seed = first.wrapping_add(round as u64);
        let own = seed.to_string();
        let nodes = [&[&own, "0"][..], &[&own, "1"], &[&own, "2", "killed"]].map(|words| start(&program, "any", words));
        let [one, other, killed] = nodes.map(|node| node.wait_with_output().expect("it was started"));
        let repeat =
            format!("repeat with {SEED_VARIABLE}={seed} cargo test -p deck-c --test compile -- --exact {TEST}");
        assert!(one.status.success() && other.status.success(), "{one:?}\n{other:?}\n{repeat}");
        assert_eq!(killed.status.signal(), Some(9), "{killed:?}\n{repeat}");
    });
}

/// The program makes every call that the header declares.
#[track_caller]
fn expect_every_call_in(program: &str) {
    let read = |file: &str| std::fs::read_to_string(package().join(file)).expect("the package has it");
    let (header, program) = (read("include/deck.h"), read(program));
    let forgotten: Vec<_> = calls(&header).filter(|call| !program.contains(&format!("{call}("))).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
}

/// The functions that the header declares, but those that a node cannot call wrongly.
fn calls(header: &str) -> impl Iterator<Item = &str> {
    const CANNOT_BE_WRONG: [&str; 3] = ["deck_set_log", "deck_node", "deck_numnodes"];
    let declared = header.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    declared
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("deck_") && !CANNOT_BE_WRONG.contains(name))
}

#[test]
fn messages_keep_their_elements() {
    run("tests/messages.c");
}

#[test]
fn mail_boxes_deliver_refuse_and_close() {
    run("tests/mailboxes.c");
}

#[test]
fn posting_and_retrieving_allocate_nothing_and_make_no_system_call() {
    let program = compile("tests/short_path.c", Language::C11, "run");
    succeed(alone(&program).arg("one"));
    succeed(alone(&program).arg("two").env("DECK_JOB", format!("deck-c-short-path-{}", std::process::id())));
}

#[test]
fn threads_and_semaphores_end_as_documented() {
    run("tests/threads.c");
}

#[test]
fn a_thread_that_is_cancelled_takes_no_call_with_it() {
    run("tests/cancelled.c");
}

#[test]
fn what_cleans_up_when_a_thread_or_the_process_ends_can_lock_and_is_told_why_it_cannot() {
    let program = compile("tests/at_exit.c", Language::C11, "run");
    assert_eq!(succeed(&mut alone(&program)).stdout, b"cleaned up\n");
}

#[test]
fn a_process_whose_first_thread_has_ended_is_a_node_and_ends() {
    let program = compile("tests/first_thread.c", Language::C11, "run");
    succeed(alone(&program).env("DECK_JOB", format!("deck-c-first-thread-{}", std::process::id())));
}

#[test]
fn what_a_process_gives_whose_first_thread_has_ended_is_read_by_other_nodes() {
    let program = compile("tests/first_thread_gives.c", Language::C11, "run");
    for node in [(); 2].map(|()| start(&program, "first-thread-gives", &[])) {
        let output = node.wait_with_output().expect("it was started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn groups_do_every_collective_in_c_and_cxx() {
    for (language, how) in [(Language::C11, "c"), (Language::Cxx17, "cxx")] {
        succeed(&mut alone(&compile("tests/groups.c", language, how)));
    }
}

#[test]
fn members_of_a_group_on_two_nodes_are_told_who_died() {
    tell("group");
}

#[test]
fn segments_and_what_keeps_order_in_them_work_as_documented() {
    run("tests/named.c");
}

/// The program and the output in the guide are real.
#[test]
fn the_guide_to_shared_segments_shows_a_program_and_what_it_prints() {
    expect_the_guides_program("shared-segments", "c", "sums.c", Language::C11);
}

#[test]
fn the_guide_to_cxx_shows_a_program_and_what_it_prints() {
    expect_the_guides_program("cxx", "cpp", "numbers.cpp", Language::Cxx17);
}

/// Two nodes of the program that a page of the guide shows, written to `file`, print what it shows behind that.
#[track_caller]
fn expect_the_guides_program(page: &str, fence: &str, file: &str, language: Language) {
    let page_text = guide(page);
    let block = |fence: &str| block(&page_text, fence);
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    std::fs::write(&source, block(fence)).expect("the folder can be written");
    let program = compile(source.to_str().expect("cargo's folders have plain names"), language, "guide");
    let nodes = [(); 2].map(|()| start(&program, page, &[]));
    let printed: String = nodes
        .into_iter()
        .map(|node| {
            let output = node.wait_with_output().expect("it was started");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("text")
        })
        .collect();
    let (_, shown) = block("console").split_once('\n').expect("a command, and its output");
    assert_eq!(printed, shown);
}

/// What the guide tells ThreadSanitizer: it reports nothing of the library then, and all that is the program's.
#[test]
fn thread_sanitizer_reports_races_of_the_program_alone() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sanitized");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let sanitized = |source: &Path, name: &str| {
        let program = folder.join(name);
        let mut command = compiler(Language::C11);
        command
            .args(["-g", "-fsanitize=thread", "-I"])
            .arg(&folder)
            .arg(source)
            .args(["-x", "none", "-o"])
            .arg(&program);
        products::link(&mut command, library_folder());
        (command, program)
    };
    let trial = folder.join("trial.c");
    std::fs::write(&trial, "int main(void) { return 0; }\n").expect("the folder can be written");
    let (mut command, program) = sanitized(&trial, "trial");
    let is_there = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !is_there(&mut command) || !is_there(&mut Command::new(program)) {
        println!("skipped: this compiler has no ThreadSanitizer, or this system does not run it");
        return;
    }
    let guide = guide("sanitizers");
    std::fs::write(folder.join("deck-order.h"), block(&guide, "c")).expect("the folder can be written");
    std::fs::write(folder.join("deck.supp"), block(&guide, "tsan")).expect("the folder can be written");
    let (mut command, program) = sanitized(&package().join("tests/ordered.c"), "ordered");
    succeed(&mut command);
    let run = |arguments: &[&str]| {
        let options = format!("exitcode=66:suppressions={}", folder.join("deck.supp").display());
        let output = alone(&program).args(arguments).env("TSAN_OPTIONS", options).output().expect("it was compiled");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), told.matches("WARNING: ThreadSanitizer").count(), told)
    };
    let (code, reports, told) = run(&[]);
    assert_eq!((code, reports), (Some(0), 0), "{told}");
    let (code, reports, told) = run(&["race"]);
    assert_eq!((code, reports), (Some(66), 1), "{told}");
}

#[test]
fn a_killed_holder_of_a_mutex_is_told_and_its_segment_lives_on() {
    tell("holder");
}

#[test]
fn nothing_of_the_library_stands_where_programs_print() {
    tell("unheard");
}

#[test]
fn a_node_lives_from_init_to_done_and_not_in_a_forked_child() {
    run("tests/life.c");
}

#[test]
fn what_the_environment_says_wrong_is_told_by_name() {
    run("tests/environment.c");
}

#[test]
fn a_killed_node_is_told_once_after_all_that_it_had_posted() {
    tell("killed");
}

#[test]
fn a_closed_mail_box_ends_the_waits_of_other_nodes() {
    tell("closed");
}

#[test]
fn a_node_that_left_is_no_loss() {
    tell("left");
}

#[test]
fn a_stopped_node_is_frozen_and_loses_nothing() {
    tell("frozen");
}
