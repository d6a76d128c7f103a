//! The fast paths on aarch64.
//!
//! The words of [`FAST`](crate::state::FAST) are stored in an order: whoever loads the limit or the
//! mask that opens the path, by a load-acquire, finds the rest in place
//! (`crate::state::choose`). That is the one ordered access of a call.

use crate::malloc::Malloc;
use crate::malloc::counting;
use crate::state::at;
use core::ffi::c_void;

// What a load of two words takes, and where no offset can be given: the load-acquire.
const _: () = assert!(at::LIMIT == 0 && at::ROWS == at::CS_OFFSET + 8);

/// The text of a push by what the library's stacks take.
#[doc(hidden)]
#[macro_export]
macro_rules! push_text {
    (each) => {
        ::slabyard::rseq_push!()
    };
    (tagged) => {
        ::slabyard::rseq_push_if!()
    };
}

/// The text that puts an address's offset in the region into `x9`, and the mask's address into `x15`; to
/// `29` where the address is none of an object.
#[doc(hidden)]
#[macro_export]
macro_rules! offset_text {
    ($address:literal) => {
        concat!(
            "adrp x15, {fast} + {mask}\n",
            "add x15, x15, :lo12:{fast} + {mask}\n",
            "ldar x14, [x15]\n",
            "ldur x9, [x15, #{base} - {mask}]\n",
            "sub x9, ",
            $address,
            ", x9\n",
            "tst x9, x14\n",
            "b.ne 29f"
        )
    };
}

/// The body of `name(size)`: the class's slot from the table, then pop.
#[doc(hidden)]
#[macro_export]
macro_rules! pop_by_size {
    ($slow:path) => {
        ::core::arch::naked_asm!(
            "adrp x15, {fast}",
            "add x15, x15, :lo12:{fast}",
            "ldar x14, [x15]",
            "cmp x0, x14",
            "b.hs 29f",
            "add w9, w0, #15",
            "lsr w9, w9, #4",
            "add x9, x15, x9, lsl #1",
            "ldp x10, x11, [x15, #{cs}]",
            ::slabyard::rseq_announce!(),
            "ldrh w9, [x9, #{table}]",
            ::slabyard::rseq_pop!(),
            "mov x0, x14",
            "ret",
            "29: b {slow}",
            ".p2align 6",
            fast = sym $crate::state::FAST,
            slow = sym $slow,
            table = const $crate::state::at::TABLE,
            cs = const $crate::state::at::CS_OFFSET,
        )
    };
}

/// The body of [`counting`]'s `name(size)`: counts the size off the thread's gap, then is as `malloc`,
/// with the load-acquire of what opens it.
#[doc(hidden)]
#[macro_export]
macro_rules! count_and_pop {
    ($slow:path) => {
        ::core::arch::naked_asm!(
            "adrp x15, {counted}",
            "add x15, x15, :lo12:{counted}",
            "ldar x14, [x15]",
            "cmp x0, x14",
            "b.hs 29f",
            "mrs x12, tpidr_el0",
            "adrp x14, :gottprel:slabyard_gap",
            "ldr x14, [x14, :gottprel_lo12:slabyard_gap]",
            "add x14, x14, x12",
            "ldr w13, [x14, #{left}]",
            "subs w13, w13, w0",
            "str w13, [x14, #{left}]",
            "b.le 29f",
            "adrp x15, {fast}",
            "add x15, x15, :lo12:{fast}",
            "add w9, w0, #15",
            "lsr w9, w9, #4",
            "add x9, x15, x9, lsl #1",
            "ldp x10, x11, [x15, #{cs}]",
            ::slabyard::rseq_announce!(),
            "ldrh w9, [x9, #{table}]",
            ::slabyard::rseq_pop!(),
            "mov x0, x14",
            "ret",
            "29: b {slow}",
            counted = sym $crate::control::COUNTED,
            left = const $crate::profile::left::LEFT_AT,
            fast = sym $crate::state::FAST,
            slow = sym $slow,
            table = const $crate::state::at::TABLE,
            cs = const $crate::state::at::CS_OFFSET,
        )
    };
}

/// The body of `name(pointer, ...)`: the slot from the page map, then push. Further
/// arguments (alignment, nothrow) are not needed.
#[doc(hidden)]
#[macro_export]
macro_rules! push_by_address {
    ($slow:path, $takes:ident) => {
        ::core::arch::naked_asm!(
            $crate::offset_text!("x0"),
            "ldr x17, [x15, #{map} - {mask}]",
            "ldp x10, x11, [x15, #{cs} - {mask}]",
            "lsr x9, x9, #12",
            ::slabyard::rseq_announce!(),
            ::slabyard::platform::rseq_count_down!(),
            "ldrh w9, [x17, x9, lsl #1]",
            $crate::push_text!($takes),
            "ret",
            "29: b {slow}",
            ".p2align 6",
            fast = sym $crate::state::FAST,
            slow = sym $slow,
            base = const $crate::state::at::BASE,
            mask = const $crate::state::at::MASK,
            map = const $crate::state::at::MAP,
            countdown = const ::slabyard::platform::stack::COUNTDOWN_AT,
            cs = const $crate::state::at::CS_OFFSET,
        )
    };
}

/// The body of `name(pointer, size)`: as that of `free`, and the size must be of the same class.
/// It is compared with the largest class, not with the limit, which a profile sets to 0.
#[doc(hidden)]
#[macro_export]
macro_rules! push_by_address_and_size {
    ($slow:path, $takes:ident) => {
        ::core::arch::naked_asm!(
            $crate::offset_text!("x0"),
            "mov w14, #{beyond}",
            "cmp x1, x14",
            "b.hs 29f",
            "ldr x17, [x15, #{map} - {mask}]",
            "lsr x9, x9, #12",
            "ldrh w9, [x17, x9, lsl #1]",
            "add w14, w1, #15",
            "lsr w14, w14, #4",
            "add x14, x15, x14, lsl #1",
            "ldrh w14, [x14, #{table} - {mask}]",
            "cmp w14, w9",
            "b.ne 29f",
            "ldp x10, x11, [x15, #{cs} - {mask}]",
            ::slabyard::rseq_announce!(),
            ::slabyard::platform::rseq_count_down!(),
            $crate::push_text!($takes),
            "ret",
            "29: b {slow}",
            ".p2align 6",
            fast = sym $crate::state::FAST,
            table = const $crate::state::at::TABLE,
            slow = sym $slow,
            base = const $crate::state::at::BASE,
            mask = const $crate::state::at::MASK,
            beyond = const ::slabyard::cache::classes::LARGEST + 1,
            map = const $crate::state::at::MAP,
            countdown = const ::slabyard::platform::stack::COUNTDOWN_AT,
            cs = const $crate::state::at::CS_OFFSET,
        )
    };
}

/// `malloc` under a name of our own, for the library's other functions: our `calloc` must
/// not call a `malloc` that another library defines.
#[unsafe(naked)]
pub extern "C" fn own_malloc<L: Malloc>(_bytes: usize) -> *mut c_void {
    crate::pop_by_size!(counting::malloc::<L>)
}
