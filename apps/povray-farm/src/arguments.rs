//! The command line.

use std::path::{Path, PathBuf};

use clap::Parser;
use user_interface::command_line::{self, Common, Refusal, size, whole};

use crate::render::cannot_be_told;
use crate::scene::Scene;

/// Renders a POV-Ray scene with all nodes of a job.
///
/// Node 0 is the master: it hands out horizontal slices of the picture to the computing threads of all nodes, itself
/// included, and writes the picture. Each thread runs the installed `povray` on its slice. Only node 0's scene, size,
/// slices, antialias and library count; --threads is for each node. The picture is the same, bit for bit, as that of
/// one whole render by `povray -J` with one thread (`+WT1`), and `+A0.3 +AM2` for --antialias 0.3, unless the scene
/// uses radiosity, photons or chance.
#[derive(Parser, Debug)]
#[command(name = "povray-farm", version, after_help = EXAMPLES)]
#[command(mut_arg("threads", |threads| threads.help(THREADS)))]
pub struct Arguments {
    /// Scene to render; what it includes is looked for in the current folder, beside the scene, and in every --library
    #[arg(value_name = "SCENE.pov")]
    scene: PathBuf,
    /// Pixels across and down
    #[arg(long, value_name = "WxH", default_value = "640x480", value_parser = size("640x480"), allow_hyphen_values = true)]
    size: (u32, u32),
    /// Horizontal slices that the picture is handed out in; at most one for each 32 rows, which POV-Ray renders
    /// together. Each reads the scene anew, and POV-Ray waits for itself about a quarter of a second in each: fewer
    /// are faster for a small scene, as many as there are threads or more for a large one
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = whole::<u32>(1..=u32::MAX.into()))]
    slices: u32,
    /// Smooth edges: send more rays where neighbouring pixels differ by more than this, 0.3 for example
    #[arg(long, value_name = "0..3")]
    antialias: Option<f64>,
    /// Another folder to look in for what the scene includes; may be repeated
    #[arg(long, value_name = "FOLDER")]
    library: Vec<PathBuf>,
    /// Picture to write [default: the scene's name with .png, in the current folder]
    #[arg(long, value_name = "FILE.png")]
    out: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

const THREADS: &str = "Computing threads of this node, at most 1024, each with a POV-Ray [default: two for each core of its \
                       share of the host's]";

/// How files end that scenes are made of.
const SOURCES: [&str; 3] = ["pov", "inc", "ini"];

const EXAMPLES: &str = "Examples:
  povray-farm scenes/balls.pov                on one node, leaves balls.png
  deck run -n 4 povray-farm balls.pov         on four nodes
  povray-farm balls.pov --antialias 0.3       with smooth edges";

/// What to do, checked.
#[derive(Debug)]
pub struct Orders {
    /// What node 0 has rendered.
    pub scene: Scene,
    /// Computing threads of this node, if the user said how many.
    pub threads: Option<u32>,
    /// Where node 0 writes the picture.
    pub out: PathBuf,
    /// Port of the loopback page.
    pub watch: Option<u16>,
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// A [`Refusal`], when there is nothing to render.
pub fn parse(line: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>) -> Result<Orders, Refusal> {
    let Arguments { scene, size, slices, antialias, library, out, common } = command_line::parse(line)?;
    let Common { threads, watch } = common;
    let out = out.unwrap_or_else(|| PathBuf::from(scene.file_name().unwrap_or_default()).with_extension("png"));
    command_line::two_files(("the scene", Some(&scene)), ("--out", Some(&out)))?;
    if let Some(ending) = out.extension().and_then(|ending| ending.to_str())
        && SOURCES.iter().any(|source| source.eq_ignore_ascii_case(ending))
    {
        let what = format!("--out {} would be a picture in a file for POV-Ray to read", out.display());
        return Err(Refusal::Usage(format!("{what}: give it a name that ends with .png")));
    }
    let libraries = looked_in(&scene, library, std::env::current_dir().ok());
    let scene =
        Scene::checked(scene, libraries, size, slices, antialias).map_err(|error| Refusal::Usage(error.to_string()))?;
    Ok(Orders { scene, threads, out, watch })
}

/// Where POV-Ray is to look for what `scene` includes: first in the current folder, as it does itself, but that it runs
/// in another one.
fn looked_in(scene: &Path, named: Vec<PathBuf>, current: Option<PathBuf>) -> Vec<PathBuf> {
    // The user has named neither of these, who may not need them.
    let current = current.filter(|folder| cannot_be_told(folder).is_none());
    let beside = scene.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
    current.into_iter().chain(beside).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use slices::Work;

    use super::*;

    fn parse(line: &str) -> Result<Orders, Refusal> {
        super::parse(std::iter::once("povray-farm").chain(line.split_whitespace()))
    }

    #[test]
    fn the_picture_is_called_like_the_scene_and_lies_in_the_current_folder() {
        assert_eq!(parse("/scenes/biscuit.pov").unwrap().out, PathBuf::from("biscuit.png"));
        assert_eq!(parse("biscuit.pov --out b.png").unwrap().out, PathBuf::from("b.png"));
    }

    #[test]
    fn what_a_scene_includes_is_looked_for_in_the_current_folder_beside_it_and_where_the_user_says() {
        let found = |current: &str| looked_in(Path::new("/a/b.pov"), vec!["/lib".into()], Some(current.into()));
        assert_eq!(found("/here"), ["/here", "/a", "/lib"].map(PathBuf::from));
        assert_eq!(found("/hér"), ["/a", "/lib"].map(PathBuf::from));
    }

    #[test]
    fn every_option_is_understood() {
        let orders =
            parse("a.pov --size 30x200 --slices 5 --antialias 0.3 --library x --library y --threads 3 --watch 0");
        let orders = orders.unwrap();
        assert_eq!(
            (orders.scene.cut().width(), orders.scene.cut().height(), orders.scene.cut().slices()),
            (30, 200, 5)
        );
        assert_eq!((orders.threads, orders.watch), (Some(3), Some(0)));
        assert_eq!(orders.scene.describe(), "a.pov, 30x200, antialiased at 0.3");
    }

    #[test]
    fn no_example_is_wrapped_on_a_terminal_of_80_columns() {
        assert!(EXAMPLES.lines().all(|line| line.len() <= 80), "{EXAMPLES}");
    }

    #[test]
    fn a_bad_option_is_answered_by_one_line_that_says_what_to_type() {
        for (line, wanted) in [
            ("", "SCENE.pov"),
            ("a.pov --size 640", "--size 640x480"),
            ("a.pov --size 0x4", "--size from 1x1"),
            ("a.pov --slices 0", "a whole number from 1 "),
            ("a.pov --out ball.INC", "ends with .png"),
            ("a.pov --antialias -1", "--antialias"),
            ("a.pov --antialias 4", "--antialias 0.3"),
            ("a.pov b.pov", "povray-farm --help"),
            ("a.pov --out ./a.pov", "--out"),
        ] {
            match parse(line) {
                Err(Refusal::Usage(text)) => {
                    assert!(text.lines().count() == 1 && text.contains(wanted), "{line}: {text}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
