//! The README and the guides as doctests, so that every example in them compiles.

#[doc = include_str!("../../../README.md")]
mod readme {}

#[doc = include_str!("../../../docs/agents-and-tools.md")]
mod agents_and_tools {}

#[doc = include_str!("../../../docs/hooks.md")]
mod hooks {}

#[cfg(all(feature = "models", feature = "runtime-local"))]
#[doc = include_str!("../../../docs/models.md")]
mod models {}

#[doc = include_str!("../../../docs/people-in-the-loop.md")]
mod people_in_the_loop {}

#[doc = include_str!("../../../docs/quick-start.md")]
mod quick_start {}

#[cfg(feature = "models")]
#[doc = include_str!("../../../docs/streaming.md")]
mod streaming {}

#[cfg(feature = "testing")]
#[doc = include_str!("../../../docs/testing.md")]
mod testing {}

#[doc = include_str!("../../../docs/writing-a-model.md")]
mod writing_a_model {}
