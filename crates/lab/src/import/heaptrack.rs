//! Reads the files that heaptrack's interpreter writes (`heaptrack.PROGRAM.PID.zst`), compressed or
//! not.
//!
//! ```text
//! v 10400 3            version, version of the file
//! s 1f /lib/libc.so.6  a string;       i IP MODULE [FUNCTION FILE LINE]...  an instruction
//! t INSTRUCTION PARENT a place of calls;  a SIZE TRACE  an allocation's kind;  c MS  the time
//! + KIND, - KIND       one was allocated, one was freed
//! ```
//!
//! All numbers are hexadecimal; strings, instruction pointers and traces are counted from 1,
//! allocation kinds from 0 (heaptrack's own reader is `src/analyze/accumulatedtracedata.cpp`). The
//! files record neither threads nor CPUs, and do not say which object of a kind was freed. So the
//! resulting trace has one CPU, and frees the kind's most recently allocated object first.

use crate::event::{ANY_NODE, Event, EventKind};
use crate::malloc;
use crate::trace::{Attached, Error, Header, MALLOC, Names, Trace};
use slabyard::cache::classes::{ROWS, class_for};
use std::io::BufRead;

/// How such a file begins, unpacked.
pub const BEGIN: &[u8] = b"v 1";

/// Objects are distinguished by addresses this far apart.
const STEP: u64 = 16;

#[derive(Default)]
struct File {
    strings: Vec<String>,
    /// Names of instructions.
    instructions: Vec<String>,
    /// For each place of calls its instruction.
    traces: Vec<usize>,
    /// Size, and number of the site's name.
    kinds: Vec<(u64, u32)>,
    /// Objects that live, of each kind.
    live: Vec<Vec<u64>>,
    names: Names,
    events: Vec<Event>,
    time: u64,
}

pub fn read(input: impl BufRead) -> Result<Trace, Error> {
    let mut file = File::default();
    for (line, number) in input.split(b'\n').zip(1u64..) {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        file.line(&line).ok_or_else(|| Error::Foreign {
            recorder: "heaptrack",
            what: format!("line {number} makes no sense: {line:.60}"),
        })?;
    }
    let header = Header {
        page_size: Some(4096),
        cpus: Some(1),
        source: "heaptrack".into(),
        ..Header::default()
    };
    let attached = Attached { name: MALLOC.into(), time: 0, bytes: malloc::snapshot(1, 4096) };
    let File { events, names, .. } = file;
    Ok(Trace { events, names, header, attached: vec![attached], ..Trace::default() })
}

impl File {
    fn line(&mut self, line: &str) -> Option<()> {
        let Some((what, rest)) = line.split_once(' ') else { return Some(()) };
        let mut numbers = rest.split(' ').map(|word| u64::from_str_radix(word, 16).ok());
        let mut number = || numbers.next().flatten();
        match what {
            "s" => self.strings.push(rest.split_once(' ').map_or(rest, |(_, text)| text).into()),
            "i" => {
                let (ip, module, function) = (number()?, number()?, number());
                let string = |nth: u64| self.strings.get((nth as usize).checked_sub(1)?);
                let name = function.and_then(string).cloned().unwrap_or_else(|| {
                    let module = string(module).map_or("", |path| path);
                    format!("{}+{ip:#x}", module.rsplit('/').next().unwrap_or(module))
                });
                self.instructions.push(name);
            }
            "t" => self.traces.push(number()? as usize),
            "a" => {
                let (size, trace) = (number()?, number()?);
                let instruction = (trace as usize).checked_sub(1).and_then(|t| self.traces.get(t));
                let name = instruction.and_then(|i| self.instructions.get(i.checked_sub(1)?));
                let name = name.map_or("-", |name| name);
                self.kinds.push((size, self.names.intern(name)));
                self.live.push(Vec::new());
            }
            "c" => self.time = self.time.max(number()?.checked_mul(1_000_000)?),
            "+" => {
                let kind = number()? as usize;
                let address = (self.events.len() as u64 + 1) * STEP;
                self.live.get_mut(kind)?.push(address);
                self.push(EventKind::Kmalloc, kind, address);
            }
            "-" => {
                let kind = number()? as usize;
                // One from before it was attached.
                let Some(address) = self.live.get_mut(kind)?.pop() else { return Some(()) };
                self.push(EventKind::Kfree, kind, address);
            }
            _ => {}
        }
        Some(())
    }

    fn push(&mut self, event: EventKind, kind: usize, address: u64) {
        let (size, name) = self.kinds[kind];
        let allocates = event == EventKind::Kmalloc;
        let class = class_for(size.max(1) as usize).map_or(0, |class| ROWS[class].0);
        // The time is of milliseconds; the order is that of the file.
        self.time += 1;
        self.events.push(Event {
            time: self.time,
            address,
            name,
            pid: 1,
            requested: if allocates { u32::try_from(size).unwrap_or(u32::MAX) } else { 0 },
            allocated: if allocates { class } else { 0 },
            gfp: 0,
            cpu: 0,
            node: ANY_NODE,
            order: 0,
            kind: event,
            accounted: false,
            site: 0,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "v 10400 3\nX ls\ns 8 /lib/x.so\ns 4 grow\ni 7f00 1\ni 7f10 1 2 0 0\n\
        t 1 0\nt 2 1\na 64 2\na 11c00 1\nc 2\n+ 0\n+ 1\n+ 0\n- 0\n- 0\n- 0\nR 10\n";

    #[test]
    fn objects_live_as_the_file_says() {
        let trace = read(TEXT.as_bytes()).unwrap();
        let told: Vec<_> = trace
            .events
            .iter()
            .map(|e| (e.kind, e.address, e.requested, e.allocated, trace.names.get(e.name)))
            .collect();
        use EventKind::{Kfree, Kmalloc};
        assert_eq!(
            told,
            [
                (Kmalloc, 16, 100, 112, "grow"),
                (Kmalloc, 32, 72704, 0, "x.so+0x7f00"),
                (Kmalloc, 48, 100, 112, "grow"),
                (Kfree, 48, 0, 0, "grow"),
                (Kfree, 16, 0, 0, "grow"),
            ]
        );
        assert!(trace.events[0].time > 2_000_000);
        assert!(read("v 10400 3\n+ 7\n".as_bytes()).unwrap_err().to_string().contains("line 2"));
    }
}
