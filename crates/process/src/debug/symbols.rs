//! Names functions: finds the symbol that covers an address, in the file from which the code was
//! loaded, so that functions that the file does not export have names too.
//!
//! For a report, this module maps the file, searches its `.symtab` (else `.dynsym`), and unmaps it.
//! Formats: `man 5 elf`. A file that was replaced after loading, or is damaged, gives a wrong name
//! or none; every offset is checked against the file's size.

use core::ffi::{CStr, c_char, c_int, c_void};

/// Bytes of the program's own path; of a longer one the link's name is shown.
const LONGEST: usize = 256;

/// `struct dl_phdr_info`, its first four fields.
#[repr(C)]
struct Loaded {
    address: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    nr_headers: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    vaddr: u64,
    paddr: u64,
    file_bytes: u64,
    bytes: u64,
    align: u64,
}

type OnLoaded = unsafe extern "C" fn(*const Loaded, usize, *mut c_void) -> c_int;

unsafe extern "C" {
    fn dl_iterate_phdr(call: OnLoaded, to: *mut c_void) -> c_int;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64;
    fn mmap(at: *mut u8, n: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn readlink(path: *const c_char, to: *mut u8, n: usize) -> isize;
    fn munmap(at: *mut u8, n: usize) -> c_int;
}

/// The module around an address.
struct Module {
    wanted: usize,
    begin: usize,
    end: usize,
    address: usize,
    name: *const c_char,
}

unsafe extern "C" fn look(loaded: *const Loaded, _: usize, to: *mut c_void) -> c_int {
    const LOAD: u32 = 1;
    // SAFETY: the C library's description of a module, and our own place for the result.
    let (loaded, module) = unsafe { (&*loaded, &mut *to.cast::<Module>()) };
    let (mut begin, mut end, mut is_in) = (usize::MAX, 0, false);
    for nth in 0..usize::from(loaded.nr_headers) {
        // SAFETY: it has so many headers.
        let header = unsafe { &*loaded.headers.add(nth) };
        if header.kind == LOAD {
            let at = loaded.address + header.vaddr as usize;
            let behind = at + header.bytes as usize;
            (begin, end) = (begin.min(at), end.max(behind));
            is_in |= (at..behind).contains(&module.wanted);
        }
    }
    if is_in {
        (module.begin, module.end) = (begin, end);
        (module.address, module.name) = (loaded.address, loaded.name);
    }
    c_int::from(is_in)
}

fn module(wanted: usize) -> Option<Module> {
    let mut module = Module { wanted, begin: 0, end: 0, address: 0, name: core::ptr::null() };
    // SAFETY: the function is called with each module, and with our place.
    let found = unsafe { dl_iterate_phdr(look, (&raw mut module).cast()) };
    (found != 0).then_some(module)
}

/// Where the module around an address begins and ends.
pub fn module_of(address: usize) -> Option<(usize, usize)> {
    module(address).map(|module| (module.begin, module.end))
}

/// Calls `f` with the name of the function around an address, if it is known, the address's
/// offset in it or in its module, and the module's path.
pub fn name(address: usize, f: &mut dyn FnMut(Option<&CStr>, usize, &CStr)) {
    let Some(module) = module(address) else {
        return f(None, address, c"?");
    };
    // SAFETY: the C library's string.
    let path = unsafe { CStr::from_ptr(module.name) };
    let mut own = [0; LONGEST];
    let path = if path.is_empty() { own_path(&mut own) } else { path };
    let offset = address - module.address;
    let file = File::map(path);
    match file.as_ref().and_then(|file| symbol(file.bytes(), offset as u64)) {
        Some((name, begin)) => f(Some(name), offset - begin as usize, path),
        None => f(None, offset, path),
    }
}

/// The path of the program's own file.
fn own_path(buffer: &mut [u8; LONGEST]) -> &CStr {
    const LINK: &CStr = c"/proc/self/exe";
    // SAFETY: plain calls on our own buffer, of which the last byte stays 0.
    let n = unsafe { readlink(LINK.as_ptr(), buffer.as_mut_ptr(), LONGEST - 1) };
    let whole = n > 0 && (n as usize) < LONGEST - 1;
    CStr::from_bytes_until_nul(buffer).ok().filter(|_| whole).unwrap_or(LINK)
}

/// A file in memory.
struct File {
    at: *mut u8,
    bytes: usize,
}

impl File {
    fn map(path: &CStr) -> Option<File> {
        const CLOEXEC: c_int = 0o2_000_000;
        const READ: c_int = 1;
        const PRIVATE: c_int = 2;
        // SAFETY: plain calls; the mapping is ours.
        unsafe {
            let fd = open(path.as_ptr(), CLOEXEC);
            if fd < 0 {
                return None;
            }
            let bytes = usize::try_from(lseek(fd, 0, 2)).unwrap_or(0);
            let at = mmap(core::ptr::null_mut(), bytes, READ, PRIVATE, fd, 0);
            close(fd);
            (at as isize != -1).then_some(File { at, bytes })
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped by `map` with so many bytes.
        unsafe { core::slice::from_raw_parts(self.at.cast(), self.bytes) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`.
        unsafe { munmap(self.at, self.bytes) };
    }
}

fn number<const N: usize>(file: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes = file.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)))
}

/// A section of a file.
struct Section {
    kind: u64,
    at: u64,
    bytes: u64,
    /// The number of the section that it refers to.
    refers_to: u64,
}

fn section(file: &[u8], nth: u64) -> Option<Section> {
    let headers = number::<8>(file, 0x28)?;
    let each = number::<2>(file, 0x3a)?;
    let header = headers.checked_add(nth.checked_mul(each)?)?;
    Some(Section {
        kind: number::<4>(file, header + 4)?,
        at: number::<8>(file, header + 0x18)?,
        bytes: number::<8>(file, header + 0x20)?,
        refers_to: number::<4>(file, header + 0x28)?,
    })
}

/// The function around an address of a file of 64 bits, and where it begins.
fn symbol(file: &[u8], address: u64) -> Option<(&CStr, u64)> {
    const SYMTAB: u64 = 2;
    const DYNSYM: u64 = 11;
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let nr = number::<2>(file, 0x3c)?;
    [SYMTAB, DYNSYM].iter().find_map(|kind| {
        let table = (0..nr).filter_map(|nth| section(file, nth)).find(|it| it.kind == *kind)?;
        symbol_in(file, &table, address)
    })
}

/// The same of one table of symbols.
fn symbol_in<'a>(file: &'a [u8], table: &Section, address: u64) -> Option<(&'a CStr, u64)> {
    const SYMBOL: u64 = 24;
    const FUNCTION: u64 = 2;
    let names = section(file, table.refers_to)?;
    let mut best = None;
    for nth in 0..table.bytes / SYMBOL {
        let at = table.at.checked_add(nth * SYMBOL)?;
        let kind = number::<1>(file, at + 4)? & 15;
        let (value, size) = (number::<8>(file, at + 8)?, number::<8>(file, at + 16)?);
        let is_around = value <= address && address < value.saturating_add(size.max(1));
        if kind == FUNCTION
            && value != 0
            && is_around
            && best.is_none_or(|(_, begin)| begin < value)
        {
            best = Some((number::<4>(file, at)?, value));
        }
    }
    let (name, begin) = best?;
    let name = file.get(usize::try_from(names.at.checked_add(name)?).ok()?..)?;
    Some((CStr::from_bytes_until_nul(name).ok()?, begin))
}
