//! The rule of `approval_if`.

use proc_macro2::{Ident, Span, TokenStream};
use syn::{Expr, ExprClosure, ItemImpl, Type, parse_quote};

use crate::code::{at, code, private};

/// A closure of the input and the context that decides whether a call needs approval.
pub(crate) struct Rule {
    closure: ExprClosure,
}

impl Rule {
    /// Parses `|a| ..`, `|a, cx| ..`, and both with `async` before or after the bars.
    ///
    /// # Errors
    /// At a value that is not such a closure.
    pub(crate) fn read(value: Expr) -> syn::Result<Self> {
        let Expr::Closure(mut closure) = value else {
            let message = "write the rule as a closure: `|a| ..` or `|a, cx| ..`";
            return Err(syn::Error::new_spanned(value, message));
        };
        match closure.inputs.len() {
            1 => closure.inputs.push(parse_quote!(_)),
            2 => {}
            _ => {
                let message = "the rule takes the tool's input, and the context if it needs it: `|a| ..` or `|a, cx| ..`";
                return Err(syn::Error::new_spanned(closure, message));
            }
        }
        // A closure that returns a future cannot lend it the input; an async closure can.
        if closure.asyncness.is_none()
            && let Expr::Async(future) = &*closure.body
        {
            let block = &future.block;
            let body = parse_quote!(#block);
            closure.asyncness = Some(future.async_token);
            closure.capture = future.capture;
            closure.body = Box::new(body);
        }
        Ok(Self { closure })
    }

    /// Generates the rule as a method, so that it can use `self`, of a private trait.
    pub(crate) fn items(&self, block: &ItemImpl, input: &Type) -> TokenStream {
        let private = private();
        // The `self` in the closure must refer to this receiver.
        let this = Ident::new("self", Span::call_site());
        let (generics, _, bounds) = block.generics.split_for_impl();
        let self_ty = &block.self_ty;
        let closure = &self.closure;
        let verdict = if closure.asyncness.is_some() {
            code!(#private::ask_async(input, cx, #closure).await)
        } else {
            code!(#private::ask(input, cx, #closure))
        };
        // A type error of the verdict is shown at the rule.
        let into_verdict = Ident::new("into_verdict", at(&closure.body));
        code! {
            trait __HelixRule<Input> {
                async fn needs_approval(
                    &self,
                    input: &Input,
                    cx: &#private::ToolCx,
                ) -> #private::ToolResult<bool>;
            }

            impl #generics __HelixRule<#input> for #self_ty #bounds {
                async fn needs_approval(
                    &#this,
                    input: &#input,
                    cx: &#private::ToolCx,
                ) -> #private::ToolResult<bool> {
                    use #private::IntoVerdict as _;
                    #verdict.#into_verdict()
                }
            }
        }
    }
}
