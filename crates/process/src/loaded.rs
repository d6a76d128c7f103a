//! Items that each library must define: the functions that the loader calls, and those that Rust
//! needs in a library without `std`.
//!
//! Neighbours: [`crate::start`] and [`crate::exit`] define the functions that the loader calls. A
//! macro defines the items, because they must be in the crate that becomes the library.

/// What each [`Library`](crate::library::Library) says once: what runs as it is loaded and as the process
/// ends, and what a library without the standard one must define.
#[macro_export]
macro_rules! library {
    ($library:ty) => {
        ::slabyard_abi::shared_library!();

        #[used]
        #[unsafe(link_section = ".init_array")]
        static CONSTRUCTOR: extern "C" fn() = $crate::start::constructor::<$library>;

        #[used]
        #[unsafe(link_section = ".fini_array")]
        static DESTRUCTOR: extern "C" fn() = $crate::exit::destructor::<$library>;

        /// A bug of ours: the process cannot continue.
        #[cfg(panic = "abort")]
        #[panic_handler]
        fn panic(info: &::core::panic::PanicInfo) -> ! {
            $crate::say!("{info}");
            $crate::text::abort()
        }
    };
}
