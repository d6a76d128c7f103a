//! The frame of rt_sigreturn(2): all registers of a thread, as the kernel writes them for a signal
//! handler and reads them when the handler returns (arm64: `struct rt_sigframe`, with the contexts of the
//! kernel's `asm/ucontext.h` and `asm/sigcontext.h`).

use crate::process::outside::stopped::{Frame, NO_FLAGS, State};
use slabyard_abi::region::outside::ARM64_REGISTERS;

/// Bytes of what the kernel records of the signal, and of the whole.
const SIGNAL: usize = 128;
const WHOLE: usize = 4688;
const FLAGS_AT: usize = SIGNAL + 24;
const MASK_AT: usize = SIGNAL + 40;
/// The stack pointer, the program counter and the state are behind `x0` to `x30`.
const BEHIND_REGISTERS: usize = ARM64_REGISTERS + 31 * 8;
/// Where the records of other registers begin; one without a number ends them.
const RECORDS_AT: usize = 592;
const FPSIMD_MAGIC: u32 = 0x4650_8001;
const FPSIMD_BYTES: usize = 528;
/// Bytes of the 32 registers of a set, which has status and control behind them; the frame, before.
const VECTORS: usize = 512;

/// A frame that ends below an address, by which the thread comes to be as it is here. `None` if the
/// other registers are not as they are expected.
pub(crate) fn frame_below(end: u64, state: &State) -> Option<Frame> {
    let floating = state.floating.get(..VECTORS + 8)?;
    let at = end.checked_sub(WHOLE as u64)? & !15;
    let mut bytes = vec![0; WHOLE];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(FLAGS_AT, &NO_FLAGS.to_le_bytes());
    put(MASK_AT, &state.mask.to_le_bytes());
    let r = &state.registers;
    for (nth, register) in r.regs.iter().enumerate() {
        put(ARM64_REGISTERS + nth * 8, &register.to_le_bytes());
    }
    for (nth, register) in [r.sp, r.pc, r.pstate].iter().enumerate() {
        put(BEHIND_REGISTERS + nth * 8, &register.to_le_bytes());
    }
    put(RECORDS_AT, &FPSIMD_MAGIC.to_le_bytes());
    put(RECORDS_AT + 4, &(FPSIMD_BYTES as u32).to_le_bytes());
    put(RECORDS_AT + 8, &floating[VECTORS..]);
    put(RECORDS_AT + 16, &floating[..VECTORS]);
    Some(Frame { at, bytes })
}
