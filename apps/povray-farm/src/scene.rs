//! What to render. The scene's files are read by every node from the same path; what is sent is the path.

use std::ffi::OsString;
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use deck::{Error, ErrorKind, Message, Result};
use slices::{Cut, Failure, Lines, Work};

use crate::render::{BLOCK, Rendering, TIED, cannot_be_told};
use crate::scratch::{self, Scratch};

/// How long a worker looks at nothing but its POV-Ray.
const LOOK: Duration = Duration::from_millis(100);
/// Most bytes of a path.
const PATH_BYTES: usize = 4096;
/// Most folders that are looked in.
const LIBRARIES: usize = 66;
/// POV-Ray's own limit of the threshold: all three colours differ by the whole range.
const LARGEST_THRESHOLD: f64 = 3.0;

/// A picture of a scene. Valid by construction: only [`Scene::checked`] makes one.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    cut: Cut,
    path: PathBuf,
    libraries: Vec<PathBuf>,
    antialias: Option<f64>,
    /// For brightness on the page only: the picture itself comes from POV-Ray.
    gamma: f64,
}

impl Scene {
    /// Checks the parameters, wherever they come from: a command line or another node's message. Does not look at
    /// files.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the remedy in the words of the command line.
    pub fn checked(
        path: PathBuf,
        libraries: Vec<PathBuf>,
        size: (u32, u32),
        slices: u32,
        antialias: Option<f64>,
    ) -> Result<Scene> {
        if let Some(threshold) = antialias.filter(|threshold| !(0.0..=LARGEST_THRESHOLD).contains(threshold)) {
            let error = Error::new(ErrorKind::Invalid, format!("an antialiasing threshold of {threshold:?}"));
            return Err(error.with_remedy("use --antialias 0.3 or any other number from 0 to 3"));
        }
        if libraries.len() > LIBRARIES {
            let error =
                Error::new(ErrorKind::Invalid, format!("{} folders that includes are looked for in", libraries.len()));
            // Two are looked in without being named.
            return Err(error.with_remedy(format!("give --library at most {} times", LIBRARIES - 2)));
        }
        let whole = |path: PathBuf| absolute(&path).unwrap_or(path);
        let cut = Cut::in_blocks(size, slices, Self::VALUES as u64, BLOCK)?;
        let libraries = libraries.into_iter().map(whole).collect();
        let scene = Scene { cut, path: whole(path), libraries, antialias, gamma: 1.0 };
        for path in std::iter::once(scene.path()).chain(scene.libraries()) {
            if path.as_os_str().len() > PATH_BYTES {
                let error = Error::new(ErrorKind::Invalid, format!("a path of {} bytes", path.as_os_str().len()));
                return Err(error.with_remedy(format!("put it where its path has at most {PATH_BYTES} bytes")));
            }
            if let Some(why) = cannot_be_told(path) {
                let error = Error::new(ErrorKind::Invalid, format!("{why} in the path {}", path.display()));
                return Err(error.with_remedy("rename what has them: POV-Ray cannot be told such a path"));
            }
        }
        Ok(scene)
    }

    /// The scene's file, as people call it.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Folders in which POV-Ray looks for what the scene includes.
    pub fn libraries(&self) -> impl Iterator<Item = &Path> {
        self.libraries.iter().map(PathBuf::as_path)
    }

    /// The threshold of antialiasing.
    pub fn antialias(&self) -> Option<f64> {
        self.antialias
    }

    /// The exponent of the scene's colours.
    pub fn gamma(&self) -> f64 {
        self.gamma
    }
}

/// What a scene says about its colours: `assumed_gamma 2.2`. Not more than a guess, since includes and expressions are
/// not followed.
fn assumed_gamma(text: &str) -> f64 {
    let said = text.split("assumed_gamma").nth(1).unwrap_or_default().trim_start();
    let number = said.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next().unwrap_or_default();
    number.parse().ok().filter(|gamma| (0.1..10.0).contains(gamma)).unwrap_or(1.0)
}

impl Work for Scene {
    type Value = u8;
    const VALUES: usize = 3;
    const PROGRAM: &'static str = "povray-farm";
    /// POV-Ray waits for itself a fifth of a second and more: another one has the core then.
    const THREADS_FOR_A_CORE: u32 = 2;

    fn cut(&self) -> &Cut {
        &self.cut
    }

    fn describe(&self) -> String {
        let smooth = self.antialias.map(|threshold| format!(", antialiased at {threshold}")).unwrap_or_default();
        format!("{}, {}x{}{smooth}", self.name(), self.cut.width(), self.cut.height())
    }

    fn prepare(&mut self) -> Result<()> {
        let said = Command::new("povray").arg("--version").stdin(Stdio::null()).output();
        let said = said.map_err(|error| not_started("povray", &error))?;
        if said.status.code() == Some(127) {
            return Err(lacking("povray", String::from_utf8_lossy(&said.stderr).trim()));
        }
        let tied = Command::new(TIED[0]).args(&TIED[1..]).args(["sh", "-c", ":"]).stdin(Stdio::null()).output();
        let tied = tied.map_err(|error| not_started(TIED[0], &error))?;
        // There are others of that name that know less.
        if !tied.status.success() {
            return Err(lacking(TIED[0], String::from_utf8_lossy(&tied.stderr).trim()));
        }
        if fs::metadata(&self.path).is_ok_and(|found| !found.is_file()) {
            let error = Error::new(ErrorKind::Invalid, format!("{} is no regular file", self.path.display()));
            return Err(error.with_remedy("write the scene to a file: it is read once for each slice"));
        }
        let text = fs::read(&self.path).map_err(|error| {
            let unread = Error::new(ErrorKind::Invalid, format!("reading {}", self.path.display()));
            let unread = match error.raw_os_error() {
                Some(errno) => unread.with_os(errno),
                None => unread,
            };
            unread.with_remedy("name a POV-Ray scene that you may read")
        })?;
        if let Some(library) = self.libraries.iter().find(|library| !library.is_dir()) {
            let error = Error::new(ErrorKind::Invalid, format!("looking for includes in {}", library.display()));
            return Err(error.with_remedy("name a folder with --library"));
        }
        self.gamma = assumed_gamma(&String::from_utf8_lossy(&text));
        scratch::sweep();
        // Every thread of this node would say that there can be none.
        Scratch::new().map(drop)
    }

    fn pack(&self, message: &mut Message) -> Result<()> {
        let threshold = self.antialias.unwrap_or(f64::NAN);
        message.pack(&[self.cut.width(), self.cut.height(), self.cut.slices(), self.libraries.len() as u32])?;
        message.pack(&[threshold, self.gamma])?;
        std::iter::once(&self.path).chain(&self.libraries).try_for_each(|path| {
            let path = path.as_os_str().as_bytes();
            message.pack(&[path.len() as u32])?;
            message.pack(path)
        })
    }

    fn unpack(message: &mut Message) -> Result<Scene> {
        let (mut numbers, mut shades) = ([0u32; 4], [0.0f64; 2]);
        message.unpack(&mut numbers)?;
        message.unpack(&mut shades)?;
        let ([width, height, slices, libraries], [threshold, gamma]) = (numbers, shades);
        let mut path = || -> Result<PathBuf> {
            let mut bytes = [0u32];
            message.unpack(&mut bytes)?;
            let mut path = vec![0u8; (bytes[0] as usize).min(PATH_BYTES)];
            message.unpack(&mut path)?;
            Ok(PathBuf::from(OsString::from_vec(path)))
        };
        let scene = path()?;
        let libraries = (0..libraries.min(LIBRARIES as u32 + 1)).map(|_| path()).collect::<Result<_>>()?;
        let antialias = Some(threshold).filter(|threshold| !threshold.is_nan());
        Ok(Scene { gamma, ..Scene::checked(scene, libraries, (width, height), slices, antialias)? })
    }

    fn compute(&self, rows: Range<u32>, lines: &mut Lines<'_, Self>) -> std::result::Result<ControlFlow<()>, Failure> {
        let mut rendering = Rendering::start(self, rows.clone())?;
        while !rendering.wait(LOOK)? {
            for (rows, pixels) in rendering.finished_lines() {
                if lines.deliver(rows, &pixels)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if lines.look()?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(lines.finish(rows, rendering.picture()?)?)
    }

    fn paint(&self, values: &[u8]) -> Vec<u8> {
        values.to_vec()
    }
}

/// `program`, which the farm needs, was not started.
pub fn not_started(program: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => lacking(program, &error.to_string()),
        // It is there, and the system refuses it: there are too many processes, say.
        _ => Error::no_thread(format!("starting {program}"), error),
    }
}

/// `program` does not start, for what the system, the loader or itself says.
pub fn lacking(program: &str, why: &str) -> Error {
    let packages = if program == TIED[0] { "util-linux" } else { "povray povray-includes" };
    let remedy = format!("install it, with all that it needs, on every host of the job: apt-get install {packages}");
    Error::new(ErrorKind::Unsupported, format!("{program} does not start: {why}")).with_remedy(remedy)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_system_that_is_short_of_something_does_not_say_that_nothing_is_installed() {
        let told = |errno: Errno| not_started("povray", &errno.into());
        assert_eq!([Errno::NOENT, Errno::ACCESS].map(|errno| told(errno).kind()), [ErrorKind::Unsupported; 2]);
        for errno in [Errno::MFILE, Errno::AGAIN, Errno::NOMEM] {
            let error = told(errno);
            assert_eq!(error.kind(), ErrorKind::System);
            assert!(!error.to_string().contains("apt-get"), "{error}");
        }
    }

    #[test]
    fn the_exponent_of_the_colours_is_read_off_the_scene() {
        assert_eq!(assumed_gamma("global_settings{ assumed_gamma 1.3 max_trace_level 5}"), 1.3);
        assert_eq!(assumed_gamma("global_settings { assumed_gamma srgb }"), 1.0);
        assert_eq!(assumed_gamma("sphere { 0, 1 }"), 1.0);
    }

    #[test]
    fn a_scene_is_called_like_its_file() {
        assert_eq!(Scene::checked("/a/b.pov".into(), Vec::new(), (8, 8), 1, None).unwrap().name(), "b.pov");
    }

    #[test]
    fn a_path_that_povray_cannot_be_told_is_refused() {
        let checked = |path: &str, library: &str| {
            Scene::checked(path.into(), vec![library.into()], (8, 8), 1, None).map_err(|error| error.to_string())
        };
        assert!(checked("/it's/b.pov", "/\"so\"").is_ok());
        for (path, library) in [("/it's \"so\"/b.pov", "/lib"), ("/a/b.pov", "/it's \"so\"")] {
            let error = checked(path, library).unwrap_err();
            assert!(error.contains("both ' and \" in the path /it's \"so\""), "{error}");
        }
        let error = checked("/a/ü.pov", "/lib").unwrap_err();
        assert!(error.contains("letters beyond ASCII in the path /a/ü.pov"), "{error}");
    }
}
