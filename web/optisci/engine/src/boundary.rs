//! The way in and out of WebAssembly memory. The page writes the input into memory that it was given by `allocate`,
//! calls a function with its address and length, and reads the answer at `answer_address`, `answer_length`.
//!
//! A function returns 0, or 1 when the answer is an error: `{"place": ..., "message": ...}` as JSON, the place being a
//! JSON path, a line or nothing.

use std::cell::RefCell;

use optisci::cost::Crossings;
use optisci::error::Place;
use optisci::model::Objective;
use optisci::{Costs, Error};
use serde_json::{Value, json};

use crate::exchange::{self, Dropped};
use crate::session::Session;
use crate::solve::Request;
use crate::trial::{Item, Links};

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

// SAFETY:
// * both functions are given by the page under these names and types (`src/engine/engine.ts`), else the module does not
//   start; they take plain numbers and look at memory only between being called and returning.
#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Milliseconds from a clock that never goes back.
    safe fn now_ms() -> f64;
    /// A report of a search: JSON at this address, of this length.
    safe fn report(address: *const u8, length: usize);
}

/// Memory of `length` bytes for an input; given back by the call that reads it.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn allocate(length: usize) -> *mut u8 {
    // Words, so that an input of words is aligned.
    Box::into_raw(vec![0u32; length.div_ceil(4)].into_boxed_slice()).cast()
}

/// Takes an input back.
fn input(address: *mut u8, length: usize) -> Box<[u32]> {
    let words = std::ptr::slice_from_raw_parts_mut(address.cast::<u32>(), length.div_ceil(4));
    // SAFETY:
    // * the page passes an address that `allocate` gave for this length, and passes it once: `src/engine/engine.ts` has
    //   one function that allocates, fills and calls.
    // * nobody else looks at it meanwhile: WebAssembly has one thread here.
    unsafe { Box::from_raw(words) }
}

fn text(address: *mut u8, length: usize) -> String {
    let bytes: Vec<u8> = input(address, length).iter().flat_map(|word| word.to_le_bytes()).take(length).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn answer(outcome: Result<Vec<u8>, Error>) -> u32 {
    let (bytes, status) = match outcome {
        Ok(bytes) => (bytes, 0),
        Err(error) => {
            let place = match error.place() {
                Place::Path(path) => json!(path),
                Place::Line(line) => json!(line),
                Place::Whole => Value::Null,
            };
            (json!({ "place": place, "message": error.to_string() }).to_string().into_bytes(), 1)
        }
    };
    ANSWER.replace(bytes);
    status
}

fn with_session(run: impl FnOnce(&mut Session) -> Result<Vec<u8>, Error>) -> u32 {
    answer(SESSION.with_borrow_mut(|session| match session {
        Some(session) => run(session),
        None => Err(Error::whole("no model is open")),
    }))
}

fn numbers(values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    values.into_iter().flat_map(f64::to_le_bytes).collect()
}

fn objective(number: u32) -> Objective {
    [Objective::Sum, Objective::Makespan, Objective::MaxLink][number.min(2) as usize]
}

/// Where the last answer is.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn answer_address() -> *const u8 {
    ANSWER.with_borrow(|answer| answer.as_ptr())
}

/// How long the last answer is, in bytes.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn answer_length() -> usize {
    ANSWER.with_borrow(Vec::len)
}

/// Opens a model file (JSON); answers what the page draws.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn open(address: *mut u8, length: usize) -> u32 {
    let text = text(address, length);
    answer(Session::open(&text).map(|session| {
        let described = session.describe().to_string().into_bytes();
        SESSION.set(Some(session));
        described
    }))
}

/// Evaluates a placement; answers its numbers. With `shown` 1 it is what trials and explanations start from.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn evaluate(address: *mut u8, length: usize, shown: u32) -> u32 {
    let words = input(address, length);
    with_session(|session| {
        let placement = session.placement(&words)?;
        if shown == 1 {
            session.show(placement);
            return Ok(numbers(session.numbers.iter().copied()));
        }
        let costs = Costs::new(&session.model);
        let (evaluation, crossings) = (costs.evaluate(&placement), Crossings::new(&costs, &placement));
        Ok(numbers(crate::numbers::of(&session.model, &placement, &evaluation, &crossings)))
    })
}

/// Limits and pins that the shown placement breaks, in words (JSON).
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn violations() -> u32 {
    with_session(|session| Ok(json!(session.violations()).to_string().into_bytes()))
}

/// Items: for each, 0 and the index of a process and 0, or 1 and the index of a segment and the node of the copy.
fn items(session: &Session, words: &[u32]) -> Result<Vec<Item>, Error> {
    let (processes, segments) = (session.placement.processes.len(), session.placement.segments.len());
    let read = |item: &[u32]| match *item {
        [0, index, _] if (index as usize) < processes => Ok(Item::Process(index as usize)),
        [1, index, from] if (index as usize) < segments => Ok(Item::Segment { index: index as usize, from }),
        _ => Err(Error::whole("the page asked about an item that is not there")),
    };
    words.chunks(3).map(read).collect()
}

/// Tries items on every node. Answers, one value per node each: totals, makespans, busiest links, obstacles, and
/// processes that would change places with it (-1: none).
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn trial(address: *mut u8, length: usize) -> u32 {
    let words = input(address, length);
    with_session(|session| {
        let trial = session.trial(&items(session, &words)?, Links::Count);
        let links = trial.max_link_bytes.iter().map(|&bytes| bytes as f64);
        let obstacles = trial.obstacles.iter().map(|&obstacle| f64::from(obstacle as u8));
        let swaps = trial.swaps.iter().map(|swap| swap.map_or(-1.0, |process| process as f64));
        let times = trial.total_ns.iter().chain(&trial.makespan_ns).copied();
        Ok(numbers(times.chain(links).chain(obstacles).chain(swaps)))
    })
}

/// The numbers of the shown placement with items on another node.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn follow(address: *mut u8, length: usize, node: u32) -> u32 {
    let words = input(address, length);
    with_session(|session| {
        if node as usize >= session.model.nodes() {
            return Err(Error::whole("the page asked about a node that is not there"));
        }
        Ok(numbers(session.numbers_with(&items(session, &words)?, node)))
    })
}

/// What weighs most in the shown placement, and which single moves help (JSON).
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn explain(of: u32, top: usize) -> u32 {
    with_session(|session| {
        let explanation = session.explain(objective(of), top);
        Ok(serde_json::to_vec(&explanation).expect("an explanation is JSON"))
    })
}

/// Reads files of other tools (JSON in, JSON out); what they do not tell is taken from the open model.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn import(address: *mut u8, length: usize) -> u32 {
    let dropped = serde_json::from_str::<Dropped>(&text(address, length));
    answer(SESSION.with_borrow(|session| {
        let dropped = dropped.map_err(|error| Error::whole(format!("the page sent files: {error}")))?;
        let imported = exchange::read(&dropped, session.as_ref().map(|session| &session.model))?;
        Ok(imported.to_string().into_bytes())
    }))
}

/// Writes the shown placement in the format that is named.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn export(address: *mut u8, length: usize) -> u32 {
    let format = text(address, length);
    with_session(|session| session.export(&format).map(String::into_bytes))
}

/// Searches (JSON in, JSON out), reporting on the way.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn solve(address: *mut u8, length: usize) -> u32 {
    let request = serde_json::from_str::<Request>(&text(address, length));
    with_session(|session| {
        let request = request.map_err(|error| Error::whole(format!("the page asked for a search: {error}")))?;
        let outcome = session.solve(&request, &|| now_ms(), &mut |value| {
            let bytes = value.to_string();
            report(bytes.as_ptr(), bytes.len());
        });
        Ok(outcome.to_string().into_bytes())
    })
}
