//! Reports of findings, in the kernel's order and wording.
//!
//! Each line is written by one system call, so that lines of two threads do not mix. Afterwards the
//! library continues or aborts as after other misuse (`SLABYARD_ON_ERROR`).

use super::{stack, symbols};
use crate::library::{Library, Name};
use crate::text::Line;
use crate::{policy, say};
use core::fmt::{self, Write};
use core::marker::PhantomData;
use slabyard::cache::slots::number_of;
use slabyard::pages::finding::{By, Bytes, Call, FRAMES, Finding, FindingKind, Track};
use slabyard::platform::{PerCpu, Slot};

/// Bytes of an object that are shown, from the first wrong one's line on.
const SHOWN: usize = 64;
/// Bytes in a line.
const IN_LINE: usize = 16;

/// The name of the cache of a slot.
struct NameOf<L>(u16, PhantomData<L>);

impl<L: Library> fmt::Display for NameOf<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match number_of(Slot(self.0)) {
            Some(number) => Name::<L>::of(number).fmt(f),
            None => f.write_str(slabyard::debugging::large::NAME),
        }
    }
}

/// Prints a finding.
pub(super) fn found<L: Library>(found: &Finding) {
    let (name, what) = (NameOf::<L>(found.slot, PhantomData), found.what.text());
    say!("=============================================================================");
    match found.what {
        FindingKind::Pointer => say!("BUG {name}: {what} {:#x}", found.pointer),
        FindingKind::Free => say!("BUG {name}: {what} (double free)"),
        FindingKind::Poison => say!("BUG {name}: {what} (use after free)"),
        _ => say!("BUG {name}: {what}"),
    }
    say!("-----------------------------------------------------------------------------");
    if let Some(Bytes { first, last, found: byte, expected }) = found.bytes {
        let offset = first as isize - found.object as isize;
        say!(
            "{first:#x}-{last:#x} @offset={offset}. First byte {byte:#04x} instead of {expected:#04x}"
        );
    }
    track::<L>("Allocated", found.allocated.as_ref());
    track::<L>("Freed", found.freed.as_ref());
    let [objects, used] = found.objects;
    say!("Slab {:#x} objects={objects} used={used}", found.slab);
    let Finding { object, object_bytes, requested, pointer, .. } = *found;
    say!(
        "Object {object:#x} @offset={} size={object_bytes} requested={requested}",
        object - found.slab
    );
    if pointer != object {
        say!("Pointer {pointer:#x} @object+{}", pointer as isize - object as isize);
    }
    match found.bytes {
        Some(bytes) => dump(found, bytes.first),
        // What is wrong with a large block is its seal; its first page may fault.
        None if found.slot == Finding::NO_SLOT => {
            dump(found, found.slab + found.slab_bytes - SHOWN);
        }
        None => dump(found, object),
    }
    call_stack::<L>();
    match found.what {
        FindingKind::Pointer | FindingKind::Free => say!("FIX {name}: the free was ignored"),
        _ if found.slot == Finding::NO_SLOT => {}
        _ => say!("FIX {name}: the slab at {:#x} was set aside", found.slab),
    }
    if found.by == By::Call {
        policy::end();
    }
}

/// Lines of bytes around a wrong one.
fn dump(found: &Finding, from: usize) {
    let begin = (from & !(IN_LINE - 1)).max(found.slab);
    // What lies in a block behind a wrong byte may be a guard page.
    let limit = (begin + SHOWN).min(found.slab + found.slab_bytes);
    for at in (begin..limit).step_by(IN_LINE) {
        let end = found.object + found.object_bytes as usize;
        let part = if at + IN_LINE <= found.object || at >= end { "Redzone " } else { "Object  " };
        let mut line = Line::new();
        let _ = write!(line, "slabyard: {part} {at:#x}:");
        let mut text = [b'.'; IN_LINE];
        for (nth, character) in text.iter_mut().enumerate() {
            // SAFETY: bytes of a slab, which is committed: the object's, or those behind it, in
            // whole lines of a slab.
            let byte = unsafe { core::ptr::read_volatile((at + nth) as *const u8) };
            let _ = write!(line, " {byte:02x}");
            if byte.is_ascii_graphic() || byte == b' ' {
                *character = byte;
            }
        }
        let _ = writeln!(line, "  {}", core::str::from_utf8(&text).unwrap_or_default());
        line.to_stderr();
    }
}

/// Who allocated or freed the object.
fn track<L: Library>(what: &str, track: Option<&Track>) {
    let Some(track) = track else { return };
    if *track == Track::SPOILED {
        return say!("{what} by nobody knows whom: the program wrote over the track");
    }
    let age = stack::age::<L>(track);
    let (seconds, micros) = (age / 1_000_000_000, age / 1000 % 1_000_000);
    let mut line = Line::new();
    let _ = write!(line, "slabyard: {what} {} bytes age={seconds}.{micros:06} s", track.bytes);
    if track.row != u32::MAX && !L::yard().platform().rows().are_private() {
        let _ = write!(line, " cpu={}", track.row);
    }
    let _ = writeln!(line, " thread={}", track.thread);
    line.to_stderr();
    frames(&track.frames);
}

/// The call that is under way.
pub fn call_stack<L: Library>() {
    let mut walked = [0; FRAMES];
    stack::walk(&mut walked);
    if walked[0] != 0 {
        say!("Called by thread={}", stack::thread::<L>());
        frames(&walked);
    }
}

fn frames(frames: &[usize; FRAMES]) {
    for address in frames.iter().take_while(|address| **address != 0) {
        // A return address lies behind the call, which may be its function's last instruction.
        symbols::name(address - 1, &mut |name, offset, path| {
            let path = path.to_str().unwrap_or("?");
            match name.and_then(|name| name.to_str().ok()) {
                Some(name) => say!("    {name}+{:#x} [{path}]", offset + 1),
                None => say!("    {address:#x} [{path}+{:#x}]", offset + 1),
            }
        });
    }
}

/// Prints a traced call.
pub(super) fn trace<L: Library>(call: Call, slot: u16, address: usize) {
    let name = NameOf::<L>(slot, PhantomData);
    match call {
        Call::Alloc(bytes) => say!("TRACE {name} alloc {address:#x} bytes={bytes}"),
        Call::Free => say!("TRACE {name} free {address:#x}"),
    }
}
