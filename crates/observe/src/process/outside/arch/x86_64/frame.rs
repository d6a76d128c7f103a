//! The frame of rt_sigreturn(2): all registers of a thread, as the kernel writes them for a signal
//! handler and reads them when the handler returns (x86-64: `struct ucontext` in the kernel's
//! `asm/ucontext.h` and `asm/sigcontext.h`).

use crate::process::outside::stopped::{Frame, NO_FLAGS, State};

/// Bytes of the context, and of what is between it and the floating-point registers: what the
/// kernel records of the signal.
const CONTEXT: usize = 304;
const SIGNAL: usize = 128;

const UC_FP_XSTATE: u64 = 1;
const UC_SIGCONTEXT_SS: u64 = 2;
const UC_STRICT_RESTORE_SS: u64 = 4;

// Offsets in the registers of floating point, of what is left to software: it says that the rest follows.
const SOFTWARE: usize = 464;
const FEATURES: usize = 512;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;

/// Features of AMX: a thread that never used it has no room for it in its frames.
const AMX: u64 = 1 << 17 | 1 << 18;
/// Where processors that have AMX have the end of other features, the last feature first.
const ENDS: [(u64, usize); 4] = [(1 << 9, 2696), (1 << 7, 2688), (1 << 6, 1664), (1 << 2, 832)];

/// A frame that ends below an address, by which the thread comes to be as it is here. `None` if the
/// other registers are not as they are expected.
pub(crate) fn frame_below(end: u64, state: &State) -> Option<Frame> {
    let mut floating = state.floating.clone();
    let mut features = word(&floating, SOFTWARE)?;
    let in_use = word(&floating, FEATURES)?;
    if features & AMX != 0 && in_use & AMX == 0 {
        features &= !AMX;
        let end = ENDS.iter().find(|(feature, _)| features & feature != 0)?.1;
        floating.truncate(end);
    }
    let bytes = floating.len();
    let half = u32::try_from(bytes).ok()?;
    put(&mut floating, SOFTWARE, &MAGIC_1.to_le_bytes());
    put(&mut floating, SOFTWARE + 4, &(half + 4).to_le_bytes());
    put(&mut floating, SOFTWARE + 8, &features.to_le_bytes());
    put(&mut floating, SOFTWARE + 16, &half.to_le_bytes());
    floating.extend(MAGIC_2.to_le_bytes());

    let floating_at = (end.checked_sub(floating.len() as u64)?) & !63;
    let at = floating_at.checked_sub((CONTEXT + SIGNAL) as u64)? & !15;
    let mut bytes = vec![0; usize::try_from(floating_at - at).ok()?];
    let r = &state.registers;
    put(&mut bytes, 0, &(UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS).to_le_bytes());
    put(&mut bytes, 24, &NO_FLAGS.to_le_bytes());
    let general = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx,
        r.rax, r.rcx, r.rsp, r.rip, r.eflags,
    ];
    for (nth, register) in general.iter().enumerate() {
        put(&mut bytes, 40 + nth * 8, &register.to_le_bytes());
    }
    let segments = r.cs & 0xffff | (r.ss & 0xffff) << 48;
    put(&mut bytes, 184, &segments.to_le_bytes());
    put(&mut bytes, 224, &floating_at.to_le_bytes());
    put(&mut bytes, 296, &state.mask.to_le_bytes());
    bytes.extend(floating);
    Some(Frame { at, bytes })
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
