//! How generated code is written.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;

/// `quote!` for code whose variables are its own: they never meet a user's of the same name.
macro_rules! code {
    ($($token:tt)*) => {
        ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($token)*)
    };
}

pub(crate) use code;

/// The span of code that is as `code!` makes it, and whose errors are shown at these tokens.
pub(crate) fn at(tokens: &impl Spanned) -> Span {
    tokens.span().resolved_at(Span::mixed_site())
}

/// Where everything is that generated code uses.
pub(crate) fn private() -> TokenStream {
    quote!(::helix_agents::__private)
}
