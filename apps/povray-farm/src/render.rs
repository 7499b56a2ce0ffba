//! One POV-Ray process that renders one slice.
//!
//! POV-Ray renders the rows with one thread (the farm has as many workers as it wants), without jitter, and with the
//! recursive antialiasing, which looks at a pixel alone. So the rows of a slice that begins where POV-Ray begins a
//! block are the same as in one whole render. It dies with the thread that started it.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use deck::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use slices::{Failure, Work};
use user_interface::memory;

use crate::closing::Closing;
use crate::portable_pixmap;
use crate::scene::{Scene, no_povray, not_started};
use crate::scratch::Scratch;
use crate::state_file::StateFile;

/// POV-Ray's exit status when it was interrupted or told to terminate (`RETURN_USER_ABORT`).
const STOPPED_BY_ITS_USER: i32 = 2;

/// Rows and columns of the blocks that POV-Ray renders at a time, when it is not told otherwise. Within a block POV-Ray
/// remembers things from one ray to the next, which show in rare pixels: a slice that begins in the middle of a block
/// is not the same, bit for bit, as these rows of one whole render.
pub const BLOCK: u32 = 32;

/// Bytes of what POV-Ray says that are told, about a screen: many more find no room in a message.
const TOLD: usize = 4096;

/// The picture, in POV-Ray's current folder: so POV-Ray need not be told the name of that folder, which may have any
/// letters.
const PICTURE: &CStr = c"slice.ppm";

/// A running POV-Ray; dropped, it is killed.
pub struct Rendering {
    child: Child,
    /// Readable when the process has ended.
    end: OwnedFd,
    state: StateFile,
    rows: Range<u32>,
    size: (u32, u32),
    picture: PathBuf,
    closing: Closing,
    /// What POV-Ray left: a whole picture, in which other rows are missing.
    left: Vec<u8>,
    words: PathBuf,
    /// After all that uses it.
    scratch: Scratch,
}

/// The command that renders `rows` of `scene` into the file [`PICTURE`] of the folder that it runs in.
pub fn command(scene: &Scene, rows: Range<u32>) -> Command {
    // The parent's death is the only thing that nobody could tell POV-Ray of. The kernel does; the shell looks whether
    // it had come before the kernel was asked to.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "sh", "-c", r#"[ "$PPID" = "$0" ] && exec povray "$@""#]);
    command.arg(std::process::id().to_string());
    command.arg(with_path("+I", scene.path()));
    command.args(scene.libraries().map(|library| with_path("+L", library)));
    command.args([
        format!("+O{}", PICTURE.to_string_lossy()),
        format!("+W{}", scene.cut().width()),
        format!("+H{}", scene.cut().height()),
        format!("+SR{}", rows.start + 1),
        format!("+ER{}", rows.end),
    ]);
    match scene.antialias() {
        // `+A` takes whole numbers and what is above 1 for something else.
        Some(threshold) => command.args(["Antialias=On", &format!("Antialias_Threshold={threshold}"), "+AM2"]),
        None => command.arg("-A"),
    };
    // Binary pixmap; no window, jitter, pause, or files and lines of statistics.
    command.args(["+FP", "-D", "-J", "-P", "+WT1", "-GS", "-GR", "-GD"]);
    // The user's own settings may say otherwise, for pictures that are not cut.
    command.args(["Dither=Off", "Bits_Per_Color=8", "Grayscale_Output=Off", "Initial_Frame=1", "Final_Frame=1"]);
    command
}

/// An option with a path. POV-Ray parses each argument once more, and blanks and some signs end a path without quotes;
/// within quotes only the quote itself means anything.
fn with_path(option: &str, path: &Path) -> OsString {
    let quote = if path.as_os_str().as_bytes().contains(&b'"') { "'" } else { "\"" };
    [option.as_ref(), quote.as_ref(), path.as_os_str(), quote.as_ref()].into_iter().collect()
}

/// Why POV-Ray cannot be told this path, if it cannot.
pub fn cannot_be_told(path: &Path) -> Option<&'static str> {
    let bytes = path.as_os_str().as_bytes();
    if !bytes.is_ascii() {
        Some("letters beyond ASCII")
    } else if b"'\"".iter().all(|quote| bytes.contains(quote)) {
        Some("both ' and \"")
    } else {
        None
    }
}

impl Rendering {
    /// Starts POV-Ray on `rows` of `scene`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it is not installed, [`ErrorKind::System`] if it cannot be started.
    pub fn start(scene: &Scene, rows: Range<u32>) -> Result<Rendering> {
        let scratch = Scratch::new()?;
        let picture = scratch.path().join(OsStr::from_bytes(PICTURE.to_bytes()));
        let closing = Closing::of(scratch.path(), PICTURE);
        let words = scratch.path().join("words.txt");
        let output = File::create(&words).map_err(|error| Error::io("starting povray", &error))?;
        let child = command(scene, rows.clone())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .current_dir(scratch.path())
            .spawn()
            .map_err(|error| not_started(&error))?;
        // From here on the child is looked after.
        let pid = Pid::from_child(&child);
        let end = pidfd_open(pid, PidfdFlags::empty());
        let size = (scene.cut().width(), scene.cut().height());
        let state = StateFile::new(scratch.path().join("slice.pov-state"), rows.clone(), size.0, scene.gamma());
        match end {
            Ok(end) => {
                let left = Vec::new();
                Ok(Rendering { child, end, state, rows, size, picture, closing, left, words, scratch })
            }
            Err(errno) => {
                let mut child = child;
                let _ = child.kill();
                let _ = child.wait();
                Err(Error::new(ErrorKind::System, "watching povray").with_os(errno.raw_os_error()))
            }
        }
    }

    /// Waits for the picture, at most for `time`. Answers whether it is there, or POV-Ray has ended well.
    ///
    /// # Errors
    /// [`Failure::Impossible`] with POV-Ray's own words if it refuses the scene, [`Failure::Worker`] if it was killed.
    pub fn wait(&mut self, time: Duration) -> std::result::Result<bool, Failure> {
        let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        let told = self.closing.readable().unwrap_or(self.end.as_fd());
        // Interrupted or not: what counts is whether it is there.
        let _ = poll(&mut [PollFd::new(&self.end, PollFlags::IN), PollFd::new(&told, PollFlags::IN)], Some(&time));
        // One that was killed may have closed half a picture.
        if self.closing.was_told() && self.take_picture()? {
            return Ok(true);
        }
        match self.child.try_wait() {
            Ok(None) => Ok(false),
            Ok(Some(status)) if status.success() => Ok(self.take_picture().map(|_| true)?),
            Ok(Some(status)) => Err(self.failure(status)),
            Err(error) => Err(Error::io("waiting for povray", &error).into()),
        }
    }

    fn failure(&self, status: ExitStatus) -> Failure {
        let words = fs::read(&self.words).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        // The shell's words if it does not find it, and the loader's if that does not find what it needs.
        if status.code() == Some(127) || words.contains("setpriv: failed to execute") {
            return no_povray(words.trim()).into();
        }
        // It says no more than that it cannot write, if it gets as far as that.
        let is_writing = status.code().is_none() || words.contains("Cannot access data in file");
        if let Some(error) = self.scratch.no_room().filter(|_| is_writing) {
            return error.into();
        }
        // POV-Ray ends by itself when it is asked to.
        match status.code() {
            None => {
                let error = Error::new(ErrorKind::System, format!("povray was killed ({status})"));
                return error.with_remedy("if memory ran out, use fewer --threads or nodes").into();
            }
            Some(STOPPED_BY_ITS_USER) => {
                let error = Error::new(ErrorKind::System, "povray was told to end");
                return error.with_remedy("start the job again").into();
            }
            Some(_) => {}
        }
        let remedy = "correct the scene, or name the folder of what it includes with --library".to_owned();
        // The sentence goes on.
        Failure::Impossible { what: complaint(&words).trim_end_matches('.').to_owned(), remedy }
    }

    /// Lines that were finished since the last call.
    pub fn finished_lines(&mut self) -> Vec<(Range<u32>, Vec<u8>)> {
        self.state.news()
    }

    /// Reads what POV-Ray has left; whether that is a picture.
    fn take_picture(&mut self) -> Result<bool> {
        self.left = match fs::read(&self.picture) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                let whole = self.size.0 as usize * self.size.1 as usize * Scene::VALUES;
                return Err(memory::lacking_for_size(whole, "the picture that povray left"));
            }
            read => read.unwrap_or_default(),
        };
        Ok(self.pixels().is_some())
    }

    fn pixels(&self) -> Option<&[u8]> {
        portable_pixmap::rows(&self.left, self.size, self.rows.clone())
    }

    /// The pixels of the slice, once [`Rendering::wait`] has answered that it is there.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if they are not.
    pub fn picture(&self) -> Result<&[u8]> {
        let none = || {
            let error = Error::new(ErrorKind::System, format!("povray left no picture of rows {:?}", self.rows));
            error.with_remedy("look what povray makes of the scene when you start it yourself")
        };
        self.pixels().ok_or_else(none)
    }
}

impl Drop for Rendering {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What POV-Ray complains of, without all that it says about itself. It breaks lines at 79 columns, and where it is
/// short of processor time it says that it is parsing after what is wrong with the scene.
fn complaint(words: &str) -> String {
    let banner = words.rfind("[Parsing...]").map(|at| at + "[Parsing...]".len());
    let scene = words.find("\nFile '");
    let begin = banner.into_iter().chain(scene).min().unwrap_or(0);
    let lines = words[begin..]
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.trim_start().starts_with("===="));
    let text = lines.take_while(|line| *line != "Render failed").fold(String::new(), |text, line| {
        let is_continued = text.is_empty() || line.starts_with(' ');
        text + if is_continued { "" } else { "\n" } + line
    });
    let mut told = text.trim();
    // Why it ended comes last, after however many warnings.
    while let Some((_, rest)) = told.split_once('\n').filter(|_| told.len() > TOLD) {
        told = rest;
    }
    if told.is_empty() { "povray failed and said nothing".to_owned() } else { told.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn povray_does_not_start_when_its_node_has_died_before() {
        let scratch = Scratch::new().unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenes");
        let scene = Scene::checked(folder.join("balls.pov"), vec![folder], (8, 8), 1, None).unwrap();
        let picture = scratch.path().join(OsStr::from_bytes(PICTURE.to_bytes()));
        let mut by_its_node = command(&scene, 0..8);
        // A shell is the parent, as somebody else is of the children of the dead.
        let mut by_another = Command::new("sh");
        by_another.args(["-c", r#""$@"; true"#, "sh"]).arg(by_its_node.get_program()).args(by_its_node.get_args());
        for (command, is_rendered) in [(&mut by_another, false), (&mut by_its_node, true)] {
            let output = command.current_dir(scratch.path()).output().unwrap();
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && picture.exists() == is_rendered, "{words}");
        }
    }

    #[test]
    fn the_complaint_is_what_povray_says_and_no_more() {
        let words = "Persistence of Vision\n==== [Parsing...] ====\nFile 'bad.pov' line 2: Parse Error: Expected \
                     'numeric expression', } found\n instead\nFatal error in parser: Cannot parse input.\nRender failed\n\n";
        assert_eq!(
            complaint(words),
            "File 'bad.pov' line 2: Parse Error: Expected 'numeric expression', } found instead\nFatal error in parser: \
             Cannot parse input."
        );
        let late_banner = "Persistence of Vision\n\nFile 'bad.pov' line 4: Parse Error: Cannot open\n include file.\n\
                           ==== [Parsing...] ====\nFatal error in parser: Cannot parse input.\nRender failed\n\n";
        assert_eq!(
            complaint(late_banner),
            "File 'bad.pov' line 4: Parse Error: Cannot open include file.\nFatal error in parser: Cannot parse input."
        );
        assert_eq!(complaint("\n"), "povray failed and said nothing");
        let warnings = "File 'bad.pov' line 2: Parse Warning: This is old.\n".repeat(1000);
        let last = "File 'bad.pov' line 4: Parse Error: Expected 'number'.";
        let told = complaint(&format!("==== [Parsing...] ====\n{warnings}{last}\nRender failed\n"));
        assert!(told.starts_with("File 'bad.pov' line 2") && told.ends_with(last), "{told}");
        assert!((TOLD / 2..=TOLD).contains(&told.len()), "{} bytes", told.len());
    }
}
