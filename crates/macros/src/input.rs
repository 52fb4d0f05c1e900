//! The input type of a tool.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Attribute, ItemImpl, Type, parse_quote};

use crate::code::{code, private};

/// The input that the model gives to a tool.
pub(crate) enum Input {
    /// The parameters of the method, which become the fields of a generated struct.
    Fields(Vec<Field>),
    /// A type that the user wrote, taken with `#[args]`.
    Whole(Box<Type>),
}

/// A parameter that becomes a field of the generated struct.
pub(crate) struct Field {
    /// The doc comment and the serde and schemars attributes of the parameter.
    pub(crate) attrs: Vec<Attribute>,
    /// The name of the parameter.
    pub(crate) ident: Ident,
    /// The type of the parameter.
    pub(crate) ty: Type,
}

impl Input {
    /// The type of the input, at the place where the tool is built.
    pub(crate) fn ty(&self, block: &ItemImpl) -> Type {
        match self {
            Self::Fields(_) => {
                let (_, generics, _) = block.generics.split_for_impl();
                parse_quote!(__HelixInput #generics)
            }
            Self::Whole(ty) => Type::clone(ty),
        }
    }

    /// The pattern that destructures an input into the variables of the method call.
    pub(crate) fn pattern(&self, block: &ItemImpl) -> TokenStream {
        match self {
            Self::Fields(fields) => {
                let names = fields.iter().map(|field| &field.ident);
                let rest = is_generic(block).then(|| quote!(..));
                quote!(__HelixInput { #(#names,)* #rest })
            }
            Self::Whole(_) => code!(input),
        }
    }

    /// The generated struct with the parameters as its fields.
    ///
    /// In a generic toolset the struct has the same generics, because the type of a field may use
    /// them. It has the bounds of the toolset: if they are too weak, the error names the user's
    /// types.
    pub(crate) fn items(&self, block: &ItemImpl) -> TokenStream {
        let Self::Fields(fields) = self else {
            return TokenStream::new();
        };
        let private = private();
        let fields = fields
            .iter()
            .map(|Field { attrs, ident, ty }| quote!(#(#attrs)* #ident: #ty));
        let generics = &block.generics;
        let bounds = &generics.where_clause;
        let self_ty = &block.self_ty;
        let no_bounds =
            is_generic(block).then(|| quote!(#[serde(bound = "")] #[schemars(bound = "")]));
        let marker = is_generic(block).then(
            || quote!(#[serde(skip)] __helix_toolset: #private::PhantomData<fn() -> #self_ty>,),
        );
        quote! {
            #[derive(#private::serde::Deserialize, #private::schemars::JsonSchema)]
            #[serde(crate = "::helix_agents::__private::serde", deny_unknown_fields)]
            #[schemars(crate = "::helix_agents::__private::schemars")]
            #no_bounds
            #[allow(dead_code, reason = "nothing here reads what a client will be given")]
            struct __HelixInput #generics #bounds {
                #(#fields,)*
                #marker
            }
        }
    }
}

fn is_generic(block: &ItemImpl) -> bool {
    !block.generics.params.is_empty()
}
