//! Files that have to stay, so that the result is written over them: mounted ones, other users', and those in folders
//! that take no new file.
//!
//! Only root can arrange most of that. Each such test starts itself again in a mount namespace of its own; where that
//! is not permitted, it says that it was skipped.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

use deck_files::{check_writable, save};
use tempfile::tempdir;

/// Set in the process that has the mounts.
const ARRANGED: &str = "FILES_ARE_ARRANGED";

/// Starts the test again on a small file system of its own that `script` fills; `script` may end with a command that is
/// to start it. False outside, where all is done then.
fn is_arranged(test: &str, script: &str) -> bool {
    if env::var_os(ARRANGED).is_some() {
        return true;
    }
    let folder = tempdir().unwrap();
    let sh = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", &format!("mount -t tmpfs -o size=64k none .; cd \"$PWD\"; {script}")]);
        command.arg(env::current_exe().unwrap()).env(ARRANGED, "").current_dir(folder.path()).output()
    };
    let (probe, again) = (sh("setpriv --bounding-set=-all true"), sh(&format!("{script} \"$0\" --exact {test}")));
    match probe {
        Ok(probe) if probe.status.success() => {
            let again = again.unwrap();
            let said = [again.stdout, again.stderr].concat();
            assert!(again.status.success(), "{}", String::from_utf8_lossy(&said));
        }
        Ok(probe) => println!("skipped: mounting is refused here: {}", String::from_utf8_lossy(&probe.stderr).trim()),
        Err(error) => println!("skipped: no unshare: {error}"),
    }
    false
}

fn is_written_over(path: &Path) {
    let before = fs::metadata(path).unwrap();
    check_writable(path).unwrap();
    save(path, |file| file.write_all(b"new")).unwrap();
    let after = fs::metadata(path).unwrap();
    assert_eq!(fs::read(path).unwrap(), b"new");
    assert_eq!((after.ino(), after.uid(), after.mode()), (before.ino(), before.uid(), before.mode()));
    nothing_is_left_beside(path);
}

fn stays_if_the_result_cannot_be_finished(path: &Path) {
    let before = fs::read(path).unwrap();
    let half = |file: &mut dyn Write| file.write_all(b"ne").and_then(|()| Err(io::Error::other("no more")));
    assert_eq!(save(path, half).unwrap_err().to_string(), "no more");
    assert_eq!(fs::read(path).unwrap(), before);
    nothing_is_left_beside(path);
}

fn nothing_is_left_beside(path: &Path) {
    let folder = path.parent().filter(|folder| *folder != "").unwrap_or(Path::new("."));
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.filter(|name| name != "host" && Some(&**name) != path.file_name()).collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_mounted_file_is_written_over_with_a_whole_result() {
    let mount = "echo old >host; touch out.png; mount --bind host out.png;";
    if is_arranged("a_mounted_file_is_written_over_with_a_whole_result", mount) {
        stays_if_the_result_cannot_be_finished(Path::new("out.png"));
        is_written_over(Path::new("out.png"));
        assert_eq!(fs::read("host").unwrap(), b"new");
    }
}

#[test]
fn a_file_of_another_user_is_written_over_with_a_whole_result() {
    let give = "echo old >out.png; chown 4321 out.png; chmod 666 out.png; setpriv --bounding-set=-chown";
    if is_arranged("a_file_of_another_user_is_written_over_with_a_whole_result", give) {
        stays_if_the_result_cannot_be_finished(Path::new("out.png"));
        is_written_over(Path::new("out.png"));
    }
}

#[test]
fn a_file_in_a_folder_that_takes_no_other_is_written_over() {
    let close = "echo old >out.png; chmod 555 .; setpriv --bounding-set=-dac_override";
    if is_arranged("a_file_in_a_folder_that_takes_no_other_is_written_over", close) {
        is_written_over(Path::new("out.png"));
        assert_eq!(check_writable(Path::new("new.png")).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}

#[test]
fn a_file_in_a_folder_that_takes_no_other_is_written_over_without_root_too() {
    let folder = tempdir().unwrap();
    let [old, new] = ["out.png", "new.png"].map(|name| folder.path().join(name));
    fs::write(&old, "old").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(&new, "").is_err() {
        is_written_over(&old);
        assert_eq!(check_writable(&new).unwrap_err().kind(), ErrorKind::PermissionDenied);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_mounted_file_in_a_folder_that_is_read_only_is_written_over() {
    let close = "echo old >host; touch out.png; mount --bind host out.png; mount -o remount,bind,ro .;";
    if is_arranged("a_mounted_file_in_a_folder_that_is_read_only_is_written_over", close) {
        is_written_over(Path::new("out.png"));
        assert_eq!(check_writable(Path::new("new.png")).unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    }
}

#[test]
fn a_result_for_which_a_mounted_file_has_no_room_is_left_beside_it() {
    let mount = "mkdir host; mount -t tmpfs -o size=4k none host; echo old >host/file; touch out.png; \
                 mount --bind host/file out.png;";
    if is_arranged("a_result_for_which_a_mounted_file_has_no_room_is_left_beside_it", mount) {
        let error = save(Path::new("out.png"), |file| file.write_all(&[1; 1 << 14])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        assert!(fs::read(named_in(&error)).unwrap() == [1; 1 << 14]);
    }
}

#[test]
fn a_result_is_left_beside_a_file_whose_owner_has_closed_it_meanwhile() {
    let give = "echo old >out.png; chown 4321 out.png; chmod 666 out.png; \
                setpriv --bounding-set=-chown,-dac_override";
    if is_arranged("a_result_is_left_beside_a_file_whose_owner_has_closed_it_meanwhile", give) {
        let path = Path::new("out.png");
        let write = |file: &mut dyn Write| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o444))?;
            file.write_all(b"new")
        };
        let error = save(path, write).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        assert_eq!(fs::read(named_in(&error)).unwrap(), b"new");
        assert_eq!(fs::read(path).unwrap(), b"old\n");
    }
}

/// The file that has the whole result.
fn named_in(error: &io::Error) -> String {
    let text = error.to_string();
    let (_, name) = text.rsplit_once("all of it is in ").expect(&text);
    name.to_owned()
}
