//! One test body for each engine.

/// Tests of each engine: a module of the test's name, with one test an engine.
macro_rules! each_engine {
    ($($(#[$meta:meta])* fn $name:ident<$engine:ident>() $body:block)*) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            fn body<$engine: slabyard::engine::Engine + 'static>() $body

            #[test]
            fn slub() {
                body::<slabyard::engine::Sheaves>();
            }

            #[test]
            fn cpu_slabs() {
                body::<slabyard::engine::cpu_slabs::OnCpus>();
            }

            #[test]
            fn plain() {
                body::<slabyard::engine::Plain>();
            }
        }
    )*};
}
