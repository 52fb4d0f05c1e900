//! The macros that turn a list of cases into a module of functions and a macro of tests.

/// Makes a module of the cases and a macro that makes a test of each, from one list. With `here`,
/// the cases are in the module of the list itself.
macro_rules! suite {
    (
        ($d:tt)
        $(#[$about:meta])* mod $suite:ident($subject:ident);
        $($list:tt)+
    ) => {
        $(#[$about])*
        pub mod $suite {
            use super::{Runner, $subject};

            suite! { @cases super $subject $($list)+ }
        }

        suite! { @macro ($d) $suite $($list)+ }
    };
    (
        ($d:tt)
        mod $suite:ident($subject:ident) here;
        $($list:tt)+
    ) => {
        suite! { @cases self $subject $($list)+ }
        suite! { @macro ($d) $suite $($list)+ }
    };
    (
        @cases $here:tt $subject:ident
        $(#[$usage:meta])* macro $contract:ident;
        $($topic:ident { $($case:ident,)+ })+
    ) => {
        $(pub use $here::$topic::{$($case),+};)+

        /// Runs a case on a fresh subject.
        #[doc(hidden)]
        pub async fn check<S: Into<$subject>>(
            runner: Runner,
            fresh: impl AsyncFnOnce() -> S,
            case: impl AsyncFnOnce(&$subject),
        ) {
            let subject: $subject = fresh().await.into();
            case(&subject.run_by(runner)).await;
        }
    };
    (
        @macro ($d:tt) $suite:ident
        $(#[$usage:meta])* macro $contract:ident;
        $($topic:ident { $($case:ident,)+ })+
    ) => {
        $(#[$usage])*
        #[macro_export]
        macro_rules! $contract {
            ($d($d arguments:tt)+) => {
                $crate::__contract_tests! { $suite { $($($case)+)+ } $d($d arguments)+ }
            };
        }
    };
}

/// One test for each case.
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_tests {
    ($suite:ident { $($case:ident)+ } $fresh:expr $(,)?) => {
        $crate::__contract_tests! {
            $suite { $($case)+ } $fresh, block_on = $crate::block_on
        }
    };
    ($suite:ident { $($case:ident)+ } $fresh:expr, block_on = $block_on:path $(,)?) => {$(
        #[test]
        fn $case() {
            use $crate::contract::$suite as suite;
            let runner = $crate::contract::Runner::new(|task| $block_on(task));
            $block_on(suite::check(runner, $fresh, suite::$case));
        }
    )+};
}
