//! Parses an impl block and emits it with its `IntoTools` implementation.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use syn::{Attribute, ImplItem, ImplItemFn, Item, ItemImpl};

use crate::errors::Errors;
use crate::expand::into_tools;
use crate::method::ToolMethod;

const WHERE: &str = "write `#[toolset]` above the impl block of a type: `impl Shop { .. }`";

/// Expands `#[toolset]` on an impl block.
pub(crate) fn toolset(options: &TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    if !options.is_empty() {
        errors.at(
            options,
            "`#[toolset]` takes no options; put them on the `#[tool]`s",
        );
    }
    let emitted = match syn::parse2(item.clone()) {
        Ok(Item::Impl(block)) => toolset_of(block, &mut errors),
        Ok(_) => {
            errors.push(syn::Error::new(Span::call_site(), WHERE));
            item.clone()
        }
        Err(error) => {
            errors.push(error);
            item.clone()
        }
    };
    let errors = errors.to_compile_errors();
    quote!(#errors #emitted)
}

fn toolset_of(mut block: ItemImpl, errors: &mut Errors) -> TokenStream {
    let tools = take_tools(&mut block, errors);
    if let Some((path, _)) = &block.trait_ {
        errors.at(path, WHERE);
        return quote!(#block);
    }
    if tools.is_empty() && errors.is_empty() {
        let message =
            "this impl block has no tools; mark the methods that are tools with `#[tool]`";
        errors.at(&block.self_ty, message);
    }
    let into_tools = into_tools(&block, &tools);
    quote!(#block #into_tools)
}

/// Expands a `#[tool]` outside of a `#[toolset]` to an error.
pub(crate) fn tool_alone(item: &TokenStream) -> TokenStream {
    let message = "`#[tool]` marks a method of an impl block; write `#[toolset]` above that block";
    let error = syn::Error::new(Span::call_site(), message).to_compile_error();
    quote!(#error #item)
}

/// Takes the tools out of a block; what is left is emitted for the compiler.
fn take_tools(block: &mut ItemImpl, errors: &mut Errors) -> Vec<ToolMethod> {
    let mut tools: Vec<ToolMethod> = Vec::new();
    let mut remaining = Vec::new();
    for item in std::mem::take(&mut block.items) {
        let Some((mut function, marks, has_body)) = marked(&item) else {
            remaining.push(item);
            continue;
        };
        let Some(tool) = ToolMethod::take(&mut function, &marks, has_body, errors) else {
            remaining.push(ImplItem::Fn(function));
            continue;
        };
        if let Some(other) = same_name(&tool, &tools) {
            let name = tool.name.value();
            let message = format!("this toolset has two tools named {name}; rename one of them");
            errors.at(&tool.name, message);
            if other.ident == tool.ident {
                continue; // The compiler would complain about a second method of that name, too.
            }
        }
        if has_body || !tool.is_client() {
            remaining.push(ImplItem::Fn(function));
        }
        tools.push(tool);
    }
    block.items = remaining;
    tools
}

/// Returns a method with a `#[tool]`, its `#[tool]` attributes, and whether it has a body.
fn marked(item: &ImplItem) -> Option<(ImplItemFn, Vec<Attribute>, bool)> {
    let (mut function, has_body) = match item {
        ImplItem::Fn(function) => (function.clone(), true),
        ImplItem::Verbatim(tokens) => (with_a_body(tokens)?, false),
        _ => return None,
    };
    let marks = take_marks(&mut function.attrs);
    (!marks.is_empty()).then_some((function, marks, has_body))
}

/// Parses `async fn f();`, for which syn has no form in an impl block. The body added here is never
/// run: the method is left out, or there is an error.
fn with_a_body(tokens: &TokenStream) -> Option<ImplItemFn> {
    let mut tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    match tokens.pop() {
        Some(TokenTree::Punct(end)) if end.as_char() == ';' => {}
        _ => return None,
    }
    syn::parse2(quote!(#(#tokens)* { loop {} })).ok()
}

fn take_marks(attrs: &mut Vec<Attribute>) -> Vec<Attribute> {
    let is_mark = |attr: &Attribute| {
        attr.path()
            .segments
            .last()
            .is_some_and(|last| last.ident == "tool")
    };
    let (marks, others) = std::mem::take(attrs).into_iter().partition(is_mark);
    *attrs = others;
    marks
}

/// Returns another tool that has the same name.
///
/// Methods under a `cfg` may never exist together, so these are left to the agent, which also
/// refuses two tools of one name.
fn same_name<'a>(tool: &ToolMethod, others: &'a [ToolMethod]) -> Option<&'a ToolMethod> {
    others.iter().find(|other| {
        other.name.value() == tool.name.value() && other.cfgs.is_empty() && tool.cfgs.is_empty()
    })
}
