//! The description of a tool: the doc comment of its method.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta};

/// Returns the description as an expression; `None` if the doc comment is missing or empty.
///
/// Line breaks are kept and the leading space of each line is removed, as schemars does for fields.
pub(crate) fn description(attrs: &[Attribute]) -> Option<TokenStream> {
    let lines: Vec<&Expr> = attrs.iter().filter_map(doc_value).collect();
    let texts: Option<Vec<String>> = lines.iter().map(|line| text_of(line)).collect();
    let Some(texts) = texts else {
        // `#[doc = include_str!("..")]`: the text is known only after this macro has run.
        let parts = lines.iter().map(|line| match text_of(line) {
            Some(text) => quote!(#text),
            None => quote!(#line),
        });
        return Some(quote!(
            ::helix_agents::__private::concat!(#(#parts, "\n"),*).trim()
        ));
    };
    let text = texts.join("\n");
    let text = text.trim();
    (!text.is_empty()).then(|| quote!(#text))
}

fn doc_value(attr: &Attribute) -> Option<&Expr> {
    match &attr.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => Some(&doc.value),
        Meta::NameValue(_) | Meta::List(_) | Meta::Path(_) => None,
    }
}

fn text_of(line: &Expr) -> Option<String> {
    let Expr::Lit(ExprLit {
        lit: Lit::Str(text),
        ..
    }) = line
    else {
        return None;
    };
    let text = LitStr::value(text);
    Some(
        text.strip_prefix(' ')
            .map_or_else(|| text.clone(), str::to_owned),
    )
}
