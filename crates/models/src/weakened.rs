//! The one access whose ordering is weakened, by the variable `SLABYARD_WEAKEN`.
//!
//! Neighbour: [`super::checker`] asks here at each access.

use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which ordering of an access: that of an exchange that succeeds, and of everything else, or that
/// of an exchange that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderingOf {
    Set,
    Seen,
}

struct Weakened {
    file: String,
    line: u32,
    column: u32,
    of: OrderingOf,
    half: Ordering,
}

fn parse(text: &str) -> Option<Weakened> {
    let mut words = text.split(' ');
    let mut place = words.next()?.split(':');
    let (file, line, column) = (place.next()?, place.next()?, place.next()?);
    let of = match words.next()? {
        "set" => OrderingOf::Set,
        "seen" => OrderingOf::Seen,
        _ => return None,
    };
    let half = match words.next()? {
        "acquire" => Ordering::Acquire,
        "release" => Ordering::Release,
        _ => return None,
    };
    let (line, column) = (line.parse().ok()?, column.parse().ok()?);
    Some(Weakened { file: file.into(), line, column, of, half })
}

/// The file from the workspace on: a model that compiles a file of another crate reaches it by `..`.
pub(crate) fn path(at: &Location<'_>) -> String {
    let mut parts = Vec::new();
    for part in at.file().split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// The ordering of an access without the half that is taken from it.
pub(crate) fn weakened(order: Ordering, of: OrderingOf, at: &Location<'_>) -> Ordering {
    static WEAKENED: OnceLock<Option<Weakened>> = OnceLock::new();
    static SAID: AtomicBool = AtomicBool::new(false);
    let weakened = WEAKENED.get_or_init(|| {
        let text = std::env::var("SLABYARD_WEAKEN").ok()?;
        Some(parse(&text).unwrap_or_else(|| panic!("SLABYARD_WEAKEN: {text}")))
    });
    let Some(it) = weakened else { return order };
    if it.of != of || it.line != at.line() || it.column != at.column() || it.file != path(at) {
        return order;
    }
    let weaker = match (order, it.half) {
        (Ordering::Acquire, Ordering::Acquire) | (Ordering::Release, Ordering::Release) => {
            Ordering::Relaxed
        }
        (Ordering::AcqRel, Ordering::Acquire) => Ordering::Release,
        (Ordering::AcqRel, Ordering::Release) => Ordering::Acquire,
        _ => return order,
    };
    if !SAID.swap(true, Ordering::Relaxed) {
        eprintln!("weakened: {at}: {order:?} is {weaker:?}");
    }
    weaker
}
