//! Generates the `IntoTools` implementation of a toolset.

use proc_macro2::TokenStream;
use syn::{ItemImpl, parse_quote_spanned};

use crate::builder::Builder;
use crate::code::{at, code, private};
use crate::method::ToolMethod;

/// Generates `impl IntoTools` for the type of the block.
pub(crate) fn into_tools(block: &ItemImpl, tools: &[ToolMethod]) -> TokenStream {
    let private = private();
    let self_ty = &block.self_ty;
    let mut generics = block.generics.clone();
    // Asserted here, so that a type that cannot be shared gives one error and not one per tool.
    generics
        .make_where_clause()
        .predicates
        .push(parse_quote_spanned! {at(self_ty)=>
            #self_ty: ::helix_agents::__private::Send + ::helix_agents::__private::Sync + 'static
        });
    let (impl_generics, _, bounds) = generics.split_for_impl();
    let builders = tools.iter().map(|tool| {
        let cfgs = &tool.cfgs;
        let builder = Builder::new(block, tool).write();
        code!(#(#cfgs)* tools.push(#builder);)
    });
    code! {
        #[automatically_derived]
        impl #impl_generics #private::IntoTools for #self_ty #bounds {
            fn into_tools(
                self,
            ) -> #private::Result<#private::Vec<#private::Tool>, #private::DefinitionError> {
                let this = #private::Arc::new(self);
                let mut tools = #private::Vec::new();
                #(#builders)*
                #private::Ok(tools)
            }
        }
    }
}
