//! Helpers for generated code.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;

/// Like `quote!`, but with hygienic variables that never clash with the user's names.
macro_rules! code {
    ($($token:tt)*) => {
        ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($token)*)
    };
}

pub(crate) use code;

/// Returns a hygienic span, like that of `code!`, whose errors are shown at these tokens.
pub(crate) fn at(tokens: &impl Spanned) -> Span {
    tokens.span().resolved_at(Span::mixed_site())
}

/// Returns the path of all items that generated code uses.
pub(crate) fn private() -> TokenStream {
    quote!(::helix_agents::__private)
}
