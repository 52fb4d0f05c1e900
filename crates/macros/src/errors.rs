//! Collects mistakes, so that one run of the compiler shows them all.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<syn::Error>);

impl Errors {
    /// Notes a mistake at these tokens.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.0.push(syn::Error::new_spanned(tokens, message));
    }

    /// Notes a mistake that the parser found.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.0.push(error);
    }

    /// Whether there was none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes over the mistakes of a part.
    pub(crate) fn append(&mut self, mut part: Self) {
        self.0.append(&mut part.0);
    }

    /// Code that makes the compiler report them.
    pub(crate) fn to_compile_errors(&self) -> TokenStream {
        self.0.iter().map(syn::Error::to_compile_error).collect()
    }
}
