//! Whether an effect may have been begun before.

/// Earlier attempts at an effect, as far as a host knows of them.
///
/// Engines perform an effect at least once: again when a worker died or took too long, perhaps while
/// the earlier attempt still goes on. This has nothing to do with the attempts at a model call that
/// failed, which are effects of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// Nobody began it before.
    First,
    /// Somebody may have begun it, and may still be at it.
    Repeat,
    /// The engine does not tell.
    Untold,
}
