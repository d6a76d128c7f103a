//! Reads the kernel's memory through three BPF programs of a dozen instructions each.
//!
//! `READ` copies kernel memory into a map that this process has mapped, `CPU` finds a CPU's element
//! in a per-CPU map, and `CACHES` iterates over the caches. Where a kernel is too old for the last two
//! (5.19, 6.13), the addresses of its variables in `/proc/kallsyms` take their place. This module
//! assembles the programs and loads them by `bpf(2)`, because a BPF loader would need an object
//! file, and thus a BPF compiler. The system calls and the helpers' numbers are those of
//! `include/uapi/linux/bpf.h`.
//!
//! [`super::walk`] reads through this module's [`super::memory::Memory`] trait implementation.

#![allow(unsafe_code)]

use super::error::{ListsError, Unreadable};
use super::layout::Layout;
use super::memory::Memory;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// The most that one run copies.
const WINDOW: usize = 1 << 17;
/// No kernel has more: a list that another task changes may lead in a circle.
const MOST_CACHES: usize = 1 << 14;

// Commands.
const MAP_CREATE: i32 = 0;
const PROG_LOAD: i32 = 5;
const PROG_TEST_RUN: i32 = 10;
const LINK_CREATE: i32 = 28;
const ITER_CREATE: i32 = 33;
// Kinds.
const ARRAY: u32 = 2;
const PERCPU_ARRAY: u32 = 6;
const MMAPABLE: u32 = 1 << 10;
const TRACING: u32 = 26;
const SYSCALL: u32 = 31;
const TRACE_ITER: u32 = 28;
const SLEEPABLE: u32 = 1 << 4;
// Helpers.
const PROBE_READ_KERNEL: i32 = 113;
const SEQ_WRITE: i32 = 127;
const LOOKUP_PERCPU: i32 = 195;

/// The licence of the programs: what is here is under MIT as well, and the helpers require a
/// GPL-compatible licence.
const LICENSE: &[u8] = b"Dual MIT/GPL\0";

/// One instruction, as the kernel takes it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Insn {
    code: u8,
    /// Destination in the low half, source in the high one.
    regs: u8,
    off: i16,
    imm: i32,
}

const fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, regs: dst | src << 4, off, imm }
}
const fn mov(dst: u8, src: u8) -> Insn {
    insn(0xbf, dst, src, 0, 0)
}
const fn mov_imm(dst: u8, imm: i32) -> Insn {
    insn(0xb7, dst, 0, 0, imm)
}
const fn add_imm(dst: u8, imm: i32) -> Insn {
    insn(0x07, dst, 0, 0, imm)
}
const fn load(dst: u8, src: u8, off: i16) -> Insn {
    insn(0x79, dst, src, off, 0)
}
const fn store(dst: u8, src: u8, off: i16) -> Insn {
    insn(0x7b, dst, src, off, 0)
}
const fn call(helper: i32) -> Insn {
    insn(0x85, 0, 0, 0, helper)
}
const EXIT: Insn = insn(0x95, 0, 0, 0, 0);
/// The second half of an instruction of 16 bytes.
const REST: Insn = insn(0, 0, 0, 0, 0);

#[repr(C)]
#[derive(Default)]
struct MapAttr {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgAttr {
    kind: u32,
    count: u32,
    insns: u64,
    license: u64,
    log: [u32; 2],
    log_buffer: u64,
    kern_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    attach_type: u32,
    btf: [u32; 2],
    func_info: u64,
    func_info_count: u32,
    line_info_size: u32,
    line_info: u64,
    line_info_count: u32,
    attach_btf_id: u32,
    attach_fd: u32,
    _pad: u32,
}

#[repr(C)]
#[derive(Default)]
struct RunAttr {
    prog: u32,
    result: u32,
    data_sizes: [u32; 2],
    data: [u64; 2],
    repeat: u32,
    duration: u32,
    context_size: u32,
    context_out_size: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    _pad: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkAttr {
    prog: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct IterAttr {
    link: u32,
    flags: u32,
}

fn bpf<T>(command: i32, attr: &mut T) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes no more than `size_of::<T>()` bytes there, and the
    // memory that the fields point to outlives the call.
    let got = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_mut(attr), size_of::<T>()) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as i32) }
}

fn owned<T>(command: i32, step: &'static str, attr: &mut T) -> Result<OwnedFd, ListsError> {
    let fd = bpf(command, attr).map_err(|error| ListsError::Refused { step, error })?;
    // SAFETY: the kernel gave it to us and to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd() as u32
}

fn load_program(
    step: &'static str,
    insns: &[Insn],
    kind: u32,
    flags: u32,
    attach: (u32, u32),
) -> Result<OwnedFd, ListsError> {
    let mut attr = ProgAttr {
        kind,
        count: insns.len() as u32,
        insns: insns.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        flags,
        attach_type: attach.0,
        attach_btf_id: attach.1,
        ..ProgAttr::default()
    };
    owned(PROG_LOAD, step, &mut attr)
}

fn map(kind: u32, value: usize, flags: u32) -> Result<OwnedFd, ListsError> {
    let mut attr = MapAttr { kind, key: 4, value: value as u32, entries: 1, flags };
    owned(MAP_CREATE, "making a map", &mut attr)
}

/// The kernel's memory by BPF.
pub struct Bpf {
    read: OwnedFd,
    window: Window,
    _map: OwnedFd,
    cpus: Option<Cpus>,
}

/// The map that the kernel copies into.
struct Window(*const u8);

// SAFETY: it is the only one that knows of the mapping, which belongs to no thread.
unsafe impl Send for Window {}

/// How a CPU's memory is found.
enum Cpus {
    /// By the program `CPU`, which looks into the map.
    Program { program: OwnedFd, _map: OwnedFd },
    /// In the kernel's array of all CPUs' offsets, at this address.
    Offsets(u64),
}

impl Window {
    fn of(map: &OwnedFd) -> Result<Window, ListsError> {
        let (prot, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: a new mapping, of which nobody else knows.
        let at = unsafe { libc::mmap(ptr::null_mut(), WINDOW, prot, flags, map.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            return Err(ListsError::Refused { step: "mapping a map", error });
        }
        Ok(Window(at.cast()))
    }

    fn copy(&self, bytes: &mut [u8]) {
        assert!(bytes.len() <= WINDOW);
        // SAFETY: the mapping has so many bytes, and the kernel writes to it in `run` alone.
        unsafe { ptr::copy_nonoverlapping(self.0, bytes.as_mut_ptr(), bytes.len()) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: it is ours, and goes with the last that knows of it.
        unsafe { libc::munmap(self.0.cast_mut().cast(), WINDOW) };
    }
}

/// Runs a program once; what it returns.
fn run(program: &OwnedFd, context: &mut [u64]) -> io::Result<u32> {
    let mut attr = RunAttr {
        prog: number(program),
        context_size: size_of_val(context) as u32,
        context: context.as_mut_ptr() as u64,
        ..RunAttr::default()
    };
    bpf(PROG_TEST_RUN, &mut attr)?;
    Ok(attr.result)
}

impl Bpf {
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel refuses it: it has no BPF, is locked down, or the right is lacking.
    pub fn new() -> Result<Bpf, ListsError> {
        let map = map(ARRAY, WINDOW, MMAPABLE)?;
        // context: address, bytes
        let insns = [
            load(2, 1, 8),
            load(3, 1, 0),
            insn(0x18, 1, 2, 0, map.as_raw_fd()), // r1 = the map's value
            REST,
            mov_imm(0, -1),
            insn(0x25, 2, 0, 1, WINDOW as i32), // if r2 > WINDOW, skip the call
            call(PROBE_READ_KERNEL),
            EXIT,
        ];
        let read = load_program(
            "loading a program that reads memory",
            &insns,
            SYSCALL,
            SLEEPABLE,
            (0, 0),
        )?;
        let window = Window::of(&map)?;
        Ok(Bpf { read, window, _map: map, cpus: None })
    }

    /// The caches by the list that the kernel links them in: up to 6.12 nothing iterates over them.
    fn linked_caches(&mut self, layout: &Layout) -> Result<Vec<u64>, ListsError> {
        let lacks = ListsError::NoField("bpf_iter_kmem_cache");
        let head = symbol("slab_caches").ok_or(lacks)?;
        let mut caches = Vec::new();
        let mut link = self.word(head)?;
        while link != head && caches.len() < MOST_CACHES {
            caches.push(link.wrapping_sub(layout.cache.list.into()));
            link = self.word(link)?;
        }
        Ok(caches)
    }

    fn cpus(&mut self) -> Result<&Cpus, ListsError> {
        let cpus = match self.cpus.take() {
            Some(cpus) => cpus,
            None => Cpus::new()?,
        };
        Ok(self.cpus.insert(cpus))
    }
}

impl Cpus {
    fn new() -> Result<Cpus, ListsError> {
        // The program's helper is of 5.19.
        Cpus::program()
            .or_else(|refused| symbol("__per_cpu_offset").map(Cpus::Offsets).ok_or(refused))
    }

    fn program() -> Result<Cpus, ListsError> {
        let map = map(PERCPU_ARRAY, 8, 0)?;
        // context: CPU; then the element's address, and the map's
        let insns = [
            mov(6, 1),
            mov_imm(1, 0),
            store(10, 1, -8),
            mov(2, 10),
            add_imm(2, -8),
            load(3, 6, 0),
            insn(0x18, 1, 1, 0, map.as_raw_fd()), // r1 = the map
            REST,
            store(6, 1, 16),
            call(LOOKUP_PERCPU),
            store(6, 0, 8),
            mov_imm(0, 0),
            EXIT,
        ];
        let step = "loading a program that finds a CPU's memory";
        let program = load_program(step, &insns, SYSCALL, SLEEPABLE, (0, 0))?;
        Ok(Cpus::Program { program, _map: map })
    }
}

/// The address of a variable, where the kernel tells it (root, CONFIG_KALLSYMS_ALL).
fn symbol(name: &str) -> Option<u64> {
    let symbols = fs::read_to_string("/proc/kallsyms").ok()?;
    let line = symbols.lines().find(|line| line.split(' ').nth(2) == Some(name))?;
    let address = u64::from_str_radix(line.split(' ').next()?, 16).ok()?;
    (address != 0).then_some(address)
}

impl Memory for Bpf {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        for (nth, piece) in bytes.chunks_mut(WINDOW).enumerate() {
            let from = address.wrapping_add((nth * WINDOW) as u64);
            match run(&self.read, &mut [from, piece.len() as u64]) {
                Ok(0) => self.window.copy(piece),
                _ => return Err(Unreadable(from)),
            }
        }
        Ok(())
    }

    fn caches(&mut self, layout: &Layout) -> Result<Vec<u64>, ListsError> {
        let Some(id) = layout.iterator else { return self.linked_caches(layout) };
        // context: the sequence's state, the cache
        let insns = [
            load(2, 1, 8),
            insn(0x55, 2, 0, 2, 0), // if r2 != 0, skip the end
            mov_imm(0, 0),
            EXIT,
            store(10, 2, -8),
            load(1, 1, 0),
            load(1, 1, 0), // r1 = the sequence
            mov(2, 10),
            add_imm(2, -8),
            mov_imm(3, 8),
            call(SEQ_WRITE),
            mov_imm(0, 0),
            EXIT,
        ];
        let step = "loading a program that walks the caches";
        let program = load_program(step, &insns, TRACING, 0, (TRACE_ITER, id))?;
        let mut attr =
            LinkAttr { prog: number(&program), attach_type: TRACE_ITER, ..LinkAttr::default() };
        let link = owned(LINK_CREATE, "linking the walk of the caches", &mut attr)?;
        let mut attr = IterAttr { link: number(&link), flags: 0 };
        let walk = owned(ITER_CREATE, "beginning the walk of the caches", &mut attr)?;
        let mut bytes = Vec::new();
        let refused = |error| ListsError::Refused { step: "walking the caches", error };
        File::from(walk).read_to_end(&mut bytes).map_err(refused)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
    }

    fn cpu_offset(&mut self, layout: &Layout, cpu: u32) -> Result<u64, ListsError> {
        let mut context = [u64::from(cpu), 0, 0];
        let step = "asking for a CPU's memory";
        let program = match self.cpus()? {
            Cpus::Program { program, .. } => program,
            Cpus::Offsets(address) => {
                let address = *address;
                return Ok(self.word(address + 8 * u64::from(cpu))?);
            }
        };
        let pptrs = layout.array_pptrs.ok_or(ListsError::NoField("bpf_array.pptrs"))?;
        run(program, &mut context).map_err(|error| ListsError::Refused { step, error })?;
        let [_, element, map] = context;
        // The element of a CPU is the map's variable of each CPU, at that CPU's offset.
        let variable = self.word(map.wrapping_add(u64::from(pptrs)))?;
        match element {
            0 => Err(ListsError::Missing(format!("the kernel has no CPU {cpu}"))),
            element => Ok(element.wrapping_sub(variable)),
        }
    }
}
