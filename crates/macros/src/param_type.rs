//! The types of parameters: the context, or data that a model can give.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Type, TypeReference};

use crate::errors::Errors;

/// The tokens that the type of an input cannot contain, because it becomes the type of a struct
/// field, and why.
const IMPOSSIBLE: [(&str, &str); 3] = [
    (
        "&",
        "a parameter cannot borrow; use an owned type, such as `String` for `&str`",
    ),
    (
        "impl",
        "a parameter has one type: the model needs one schema",
    ),
    (
        "Self",
        "write the type's name: `Self` cannot be used in a tool's parameter",
    ),
];

/// Whether a parameter is the context, which is recognised by the name of its type.
pub(crate) fn is_context(ty: &Type, errors: &mut Errors) -> bool {
    match bare(ty) {
        Type::Reference(reference) if is_tool_cx(&reference.elem) => {
            if let Some(mutability) = reference.mutability {
                errors.at(mutability, "the context is shared; take it as `&ToolCx`");
            }
            true
        }
        value if is_tool_cx(value) => {
            errors.at(value, "take the context by reference: `&ToolCx`");
            true
        }
        _ => false,
    }
}

fn is_tool_cx(ty: &Type) -> bool {
    let Type::Path(path) = bare(ty) else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|last| last.ident == "ToolCx")
}

/// Reports why a type cannot be the type of an input.
pub(crate) fn check_owned(ty: &Type, errors: &mut Errors) {
    if let Type::Reference(TypeReference { elem, .. }) = bare(ty) {
        let owned = match bare(elem) {
            Type::Path(path) if path.path.is_ident("str") => "String".to_owned(),
            Type::Slice(slice) => format!("Vec<{}>", written(&slice.elem)),
            other => written(other),
        };
        errors.at(ty, format!("take the parameter by value: `{owned}`"));
    } else if let Some((token, why)) = impossible(ty.to_token_stream()) {
        errors.at(token, why);
    }
}

/// Returns the first token that makes a type impossible, at any depth, and why.
fn impossible(tokens: TokenStream) -> Option<(TokenTree, &'static str)> {
    tokens.into_iter().find_map(|token| {
        if let TokenTree::Group(group) = token {
            return impossible(group.stream());
        }
        let text = token.to_string();
        let (_, why) = IMPOSSIBLE.into_iter().find(|(word, _)| text == *word)?;
        Some((token, why))
    })
}

/// Returns a type without the invisible group of `macro_rules` or parentheses.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}

/// Formats a type as a person writes it.
fn written(ty: &Type) -> String {
    let text = ty.to_token_stream().to_string();
    text.replace(" < ", "<")
        .replace(" >", ">")
        .replace(" :: ", "::")
}
